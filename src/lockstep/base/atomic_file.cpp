#include "lockstep/base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/unique_fd.h"

namespace lockstep {
namespace {

[[noreturn]] void fail(const std::string& action, const std::string& path, int code) {
  const char* fix = code == ENOSPC || code == EDQUOT ? "free space on this file system, then try again"
                                                     : "check that the path exists and that you may access it";
  throw Error("cannot " + action + " " + path + ": " + errno_text(code), path, fix);
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

// A temporary file that is removed again unless it was renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& beside) : name_(beside + ".XXXXXX") {
    fd_ = UniqueFd(::mkostemp(name_.data(), O_CLOEXEC));
    if (!fd_) fail("create a temporary file beside", beside, errno);
  }
  ~TemporaryFile() {
    if (!renamed_) ::unlink(name_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  int fd() const { return fd_.get(); }
  void rename_to(const std::string& path) {
    if (::rename(name_.c_str(), path.c_str()) != 0) fail("replace", path, errno);
    renamed_ = true;
  }

 private:
  std::string name_;
  UniqueFd fd_;
  bool renamed_ = false;
};

void sync_folder_of(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) fail("sync folder", folder, errno);
}

}  // namespace

void write_file_atomically(const std::string& path, std::string_view content, unsigned mode) {
  TemporaryFile file(path);
  write_all(file.fd(), content, path);
  if (::fchmod(file.fd(), mode) != 0) fail("set the permissions of", path, errno);
  if (::fsync(file.fd()) != 0) fail("sync", path, errno);
  file.rename_to(path);
  sync_folder_of(path);
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
