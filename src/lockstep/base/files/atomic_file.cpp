#include "lockstep/base/files/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/files/unfinished_files.h"
#include "lockstep/base/files/unique_fd.h"

namespace lockstep {
namespace {

[[noreturn]] void fail(const std::string& action, const std::string& path, int code) {
  const char* fix = code == ENOSPC || code == EDQUOT ? "free space on this file system, then try again"
                                                     : "check that the path exists and that you may access it";
  throw Error("cannot " + action + " " + path + ": " + errno_text(code), path, fix);
}

// The target of a link, so that the file is replaced and not the link.
std::string target_of(std::string path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return path;
  const auto target = std::filesystem::weakly_canonical(path, error);
  return error ? path : target.string();
}

// Whether `path` is a device or a pipe, which must not be replaced by a file.
bool is_special(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
         !std::filesystem::is_directory(status);
}

void write_all(int fd, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      fail("write", path, errno);
    }
    content.remove_prefix(static_cast<std::size_t>(written));
  }
}

void sync_folder_of(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) fail("sync folder", folder, errno);
}

}  // namespace

AtomicFile::AtomicFile(std::string path, unsigned mode)
    : path_(target_of(std::move(path))), temporary_(path_ + kUnfinishedMark + "XXXXXX"), mode_(mode) {
  if (is_special(path_)) throw Error(path_ + " is not a regular file", path_, "name a file, or a new one");
  fd_ = UniqueFd(::mkostemp(temporary_.data(), O_CLOEXEC));
  if (!fd_) fail("create a temporary file beside", path_, errno);
}

AtomicFile::~AtomicFile() {
  if (fd_) ::unlink(temporary_.c_str());
}

void AtomicFile::reserve(std::uint64_t size_bytes) {
  // Not posix_fallocate: if the file system does not support it, that writes every block.
  if (size_bytes == 0 || ::fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size_bytes)) == 0) return;
  if (errno == ENOSPC || errno == EDQUOT) fail(fmt::format("reserve {} bytes for", size_bytes), path_, errno);
}

void AtomicFile::write(std::string_view content) { write_all(fd_.get(), content, path_); }

void AtomicFile::commit() {
  if (::fchmod(fd_.get(), mode_) != 0) fail("set the permissions of", path_, errno);
  if (::fsync(fd_.get()) != 0) fail("sync", path_, errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("replace", path_, errno);
  fd_.reset();
  sync_folder_of(path_);
}

void write_file_atomically(const std::string& path, std::string_view content, unsigned mode) {
  if (is_special(path)) {
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!fd) fail("open", path, errno);
    return write_all(fd.get(), content, path);
  }
  AtomicFile file(path, mode);
  file.write(content);
  file.commit();
}

std::string read_file(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) fail("open", path, errno);
  std::string content;
  std::vector<char> block(1 << 16);
  for (;;) {
    const ssize_t got = ::read(fd.get(), block.data(), block.size());
    if (got < 0) {
      if (errno == EINTR) continue;
      fail("read", path, errno);
    }
    if (got == 0) return content;
    content.append(block.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace lockstep
