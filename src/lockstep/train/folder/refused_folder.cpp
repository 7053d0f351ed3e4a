#include "lockstep/train/folder/refused_folder.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

namespace lockstep {

RefusedFolder::RefusedFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::absolute(path, error).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // "out/"
  while (!error && folder.has_relative_path() && !std::filesystem::exists(folder, error)) {
    missing_.push_back(folder.string());
    folder = folder.parent_path();
  }
}

RefusedFolder::~RefusedFolder() {
  if (!is_refused_) return;
  for (const std::string& folder : missing_) {
    if (::rmdir(folder.c_str()) != 0) return;  // another rank's files are there, or it has removed it
  }
}

}  // namespace lockstep
