// Brings in mesh.cpp: linked in, or as a module.
#include "lockstep/comm/gloo/mesh.h"

#if LOCKSTEP_GLOO_MODULE
#include <dlfcn.h>

#include <string>

#include "lockstep/base/error.h"
#endif

namespace lockstep {

#if !LOCKSTEP_GLOO_MODULE

// Debian's LibTorch uses the same libgloo.so as we do: one Gloo in the process.
std::unique_ptr<Mesh> make_mesh(const MeshOptions& options) {
  return std::unique_ptr<Mesh>(lockstep_make_gloo_mesh(&options));
}

#else

// PyTorch's wheels carry a Gloo inside libtorch_cpu.so, of another version than the system's, and export its symbols.
// In one scope the linker would bind each name to whichever library comes first: calls with one version's objects into
// the other's code. So mesh.cpp is linked with libgloo.so into a module that sees nothing of LibTorch, loaded so that
//  - RTLD_DEEPBIND: names in the module and in its libgloo.so are looked up among these two and the C++ library first,
//    and only then in the program, where LibTorch's Gloo is;
//  - RTLD_LOCAL: nobody else, LibTorch included, finds the names of the module and its libgloo.so.
// Nothing but the functions of mesh.h crosses the border.
namespace {

using MakeMesh = decltype(&lockstep_make_gloo_mesh);

void* open_module() {
  // Beside the file that this code is in, where it is installed; else where it was built.
  Dl_info info{};
  std::string failure;
  std::string folder;
  if (::dladdr(reinterpret_cast<void*>(&open_module), &info) != 0 && info.dli_fname != nullptr) {
    folder = info.dli_fname;
    folder = folder.find('/') == std::string::npos ? "." : folder.substr(0, folder.rfind('/'));
  }
  for (const std::string& path : {folder + "/" LOCKSTEP_GLOO_MODULE_NAME, folder + "/../lib/" LOCKSTEP_GLOO_MODULE_NAME,
                                  std::string(LOCKSTEP_GLOO_MODULE_BUILT)}) {
    if (void* module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND)) return module;
    failure += std::string("; ") + ::dlerror();
  }
  throw Error("cannot load the gloo engine's module" + failure, "gloo",
              "keep " LOCKSTEP_GLOO_MODULE_NAME " beside the program or in ../lib, and install libgloo");
}

MakeMesh find_entry() {
  void* const entry = ::dlsym(open_module(), "lockstep_make_gloo_mesh");
  if (entry == nullptr) {
    throw Error("the gloo engine's module has no entry", "gloo", "rebuild " LOCKSTEP_GLOO_MODULE_NAME);
  }
  return reinterpret_cast<MakeMesh>(entry);
}

}  // namespace

std::unique_ptr<Mesh> make_mesh(const MeshOptions& options) {
  static const MakeMesh make = find_entry();  // never unloaded: its threads may outlive any owner
  return std::unique_ptr<Mesh>(make(&options));
}

#endif

}  // namespace lockstep
