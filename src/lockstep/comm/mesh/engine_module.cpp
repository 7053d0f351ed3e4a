#include "lockstep/comm/mesh/engine_module.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

// Absolute if it can be.
std::string folder_of_this_code() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&folder_of_this_code), &info) == 0 || info.dli_fname == nullptr) return ".";
  std::error_code failed;
  const std::filesystem::path path = std::filesystem::weakly_canonical(info.dli_fname, failed);
  const std::string folder = (failed ? std::filesystem::path(info.dli_fname) : path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace

std::vector<std::string> engine_module_places(const std::string& file, const std::string& folder,
                                              const std::string& built, const std::string& build_folder) {
  std::vector<std::string> places{folder + "/" + file, folder + "/../lib/" + file, file, built};
  const bool is_of_build = (folder + "/").compare(0, build_folder.size() + 1, build_folder + "/") == 0;
  if (is_of_build) std::swap(places[2], places[3]);
  return places;
}

void* load_engine_module(const std::string& file, const std::string& built, const char* entry, int flags,
                         const std::string& fix) {
  std::string failure;
  for (const std::string& path : engine_module_places(file, folder_of_this_code(), built, LOCKSTEP_BUILD_FOLDER)) {
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
