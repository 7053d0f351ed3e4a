#include "lockstep/base/files/create_folders.h"

#include <filesystem>
#include <system_error>

#include "lockstep/base/error.h"

namespace lockstep {

void create_folders(const std::string& path) {
  std::error_code failure;
  std::filesystem::create_directories(path, failure);
  if (!failure) return;
  throw Error("cannot make the folder " + path + ": " + failure.message(), path,
              "name another folder, or check that no file stands in its place and that you may write there");
}

}  // namespace lockstep
