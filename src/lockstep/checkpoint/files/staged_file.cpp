#include "lockstep/checkpoint/files/staged_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr std::size_t kPieceBytes = 1 << 20;  // small enough to be in the cache for both checksum and write

const char* advice_for(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      return "free space on this file system, or keep fewer checkpoints (save_total_limit); earlier checkpoints are "
             "whole";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files (ulimit -n)";
    default:
      return "check that the folder exists and that you may write to it";
  }
}

}  // namespace

void fail_to(const std::string& action, const std::string& path) {
  const int code = errno;
  throw Error(fmt::format("cannot {} {}: {}", action, path, errno_text(code)), path, advice_for(code));
}

StagedFile::StagedFile(FileSystem& files, std::string path, std::uint64_t size_bytes)
    : files_(files), path_(std::move(path)), fd_(files.create(path_, 0644)) {
  if (!fd_) fail_to("create", path_);
  if (files_.reserve(fd_.get(), size_bytes) != 0) fail_to(fmt::format("reserve {} bytes for", size_bytes), path_);
}

void StagedFile::write(std::string_view bytes) {
  for (std::size_t begin = 0; begin < bytes.size(); begin += kPieceBytes) write_piece(bytes.substr(begin, kPieceBytes));
}

void StagedFile::write_piece(std::string_view piece) {
  digest_.update(piece);
  written_bytes_ += piece.size();
  while (!piece.empty()) {
    const ssize_t written = files_.write(fd_.get(), piece.data(), piece.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_to("write", path_);
    piece.remove_prefix(static_cast<std::size_t>(written));
  }
}

Manifest::File StagedFile::finish() {
  if (files_.sync(fd_.get()) != 0) fail_to("sync", path_);
  fd_.reset();
  return {written_bytes_, digest_.hex()};
}

}  // namespace lockstep
