#pragma once

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep {

/// A new folder among the temporary ones, removed by the destructor unless it is kept.
class ScratchFolder {
 public:
  /// @param name  start of the folder's name
  /// @throws Error  if it cannot be created
  explicit ScratchFolder(const std::string& name) {
    std::string pattern = (std::filesystem::temp_directory_path() / (name + "-XXXXXX")).string();
    if (::mkdtemp(pattern.data()) == nullptr) {
      throw Error("cannot make a folder: " + errno_text(errno), pattern,
                  "set TMPDIR to a folder that you may write to");
    }
    path_ = pattern;
  }
  ~ScratchFolder() {
    if (is_kept_) return;
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  /// The folder stays for the user to look at.
  void keep() { is_kept_ = true; }
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  bool is_kept_ = false;
};

}  // namespace lockstep
