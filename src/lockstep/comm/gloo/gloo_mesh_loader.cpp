// Provides gloo_mesh.cpp: linked in, or as a module.
#include "lockstep/comm/gloo/gloo_mesh.h"

#if LOCKSTEP_GLOO_MODULE
#include <dlfcn.h>

#include "lockstep/comm/mesh/engine_module.h"
#endif

namespace lockstep {

#if !LOCKSTEP_GLOO_MODULE

// Debian's LibTorch uses the libgloo.so that this build links: the process has one Gloo.
std::unique_ptr<Mesh> make_gloo_mesh(const GlooMeshOptions& options) {
  return std::unique_ptr<Mesh>(lockstep_make_gloo_mesh(&options));
}

#else

// PyTorch's wheels contain a Gloo inside libtorch_cpu.so, of another version than the system's, and export its symbols.
// In one scope the linker would bind each name to the library that was loaded first, and pass objects of one version to
// code of the other. So gloo_mesh.cpp is linked with libgloo.so into a module that sees nothing of LibTorch, loaded
// with
//  - RTLD_DEEPBIND: names in the module and in its libgloo.so are looked up in these two and the C++ library first, and
//    only then in the program, which contains LibTorch's Gloo;
//  - RTLD_LOCAL: no other library, LibTorch included, finds the names of the module and its libgloo.so.
// Only the functions of gloo_mesh.h cross this border.
std::unique_ptr<Mesh> make_gloo_mesh(const GlooMeshOptions& options) {
  using Make = decltype(&lockstep_make_gloo_mesh);
  static const auto make = reinterpret_cast<Make>(
      load_engine_module(LOCKSTEP_GLOO_MODULE_NAME, LOCKSTEP_GLOO_MODULE_BUILT, "lockstep_make_gloo_mesh",
                         RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND,
                         "keep " LOCKSTEP_GLOO_MODULE_NAME " beside the program or in ../lib, and install libgloo"));
  return std::unique_ptr<Mesh>(make(&options));
}

#endif

}  // namespace lockstep
