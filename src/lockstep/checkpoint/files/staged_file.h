#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/base/files/file_system.h"
#include "lockstep/base/files/sha256.h"
#include "lockstep/base/files/unique_fd.h"
#include "lockstep/checkpoint/files/manifest.h"

namespace lockstep {

/// Throws the Error of a failed system call, by `errno`. @param action  "write"
[[noreturn]] void fail_to(const std::string& action, const std::string& path);

/// A file of a checkpoint that is being written; its checksum is computed on the way. All calls throw Error with path
/// and cause.
class StagedFile {
 public:
  /// @param size_bytes  final size, reserved on the disk before anything is written
  StagedFile(FileSystem& files, std::string path, std::uint64_t size_bytes);

  void write(std::string_view bytes);
  /// Syncs and closes the file. @return  its entry for the manifest
  Manifest::File finish();

 private:
  void write_piece(std::string_view piece);

  FileSystem& files_;
  std::string path_;
  UniqueFd fd_;
  Sha256 digest_;
  std::uint64_t written_bytes_ = 0;
};

}  // namespace lockstep
