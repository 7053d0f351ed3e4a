#include "lockstep/comm/mesh/engine_module.h"

#include <dlfcn.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

std::string folder_of_this_code() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&folder_of_this_code), &info) == 0 || info.dli_fname == nullptr) return ".";
  const std::string path = info.dli_fname;
  return path.find('/') == std::string::npos ? "." : path.substr(0, path.rfind('/'));
}

}  // namespace

void* load_engine_module(const std::string& file, const std::string& built, const char* entry, int flags,
                         const std::string& fix) {
  const std::string folder = folder_of_this_code();
  std::string failure;
  for (const std::string& path : {folder + "/" + file, folder + "/../lib/" + file, file, built}) {
    void* const module = ::dlopen(path.c_str(), flags);
    if (module == nullptr) {
      failure += std::string("; ") + ::dlerror();
      continue;
    }
    if (void* const found = ::dlsym(module, entry)) return found;
    throw Error(file + " has no entry " + entry, "this group", "rebuild " + file);
  }
  throw Error("cannot load " + file + failure, "this group", fix);
}

}  // namespace lockstep
