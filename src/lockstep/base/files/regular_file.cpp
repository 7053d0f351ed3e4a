#include "lockstep/base/files/regular_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/files/unique_fd.h"

namespace lockstep {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& path, const std::string& fix) {
  throw Error(what, path, fix);
}

[[noreturn]] void refuse_errno(const std::string& action, const std::string& path, int code) {
  refuse(fmt::format("cannot {} {}: {}", action, path, errno_text(code)), path,
         "check that the path exists and that you may read it");
}

[[noreturn]] void refuse_size(const std::string& path, std::uint64_t bytes, std::uint64_t most_bytes) {
  refuse(fmt::format("{} has {} bytes or more, but at most {} are allowed", path, bytes, most_bytes), path,
         "check that it is the right file");
}

// Waits until a pipe's writer writes or closes it.
void wait_for_writer(int fd) {
  pollfd polled{fd, POLLIN, 0};
  ::poll(&polled, 1, -1);
}

std::string read_to_end(int fd, const std::string& path, std::uint64_t most_bytes) {
  std::string content;
  std::vector<char> block(std::size_t{1} << 16);
  for (;;) {
    const ssize_t got = ::read(fd, block.data(), block.size());
    if (got == 0) return content;
    if (got > 0) {
      content.append(block.data(), static_cast<std::size_t>(got));
      if (content.size() > most_bytes) refuse_size(path, content.size(), most_bytes);
    } else if (errno == EAGAIN) {
      wait_for_writer(fd);
    } else if (errno != EINTR) {
      refuse_errno("read", path, errno);
    }
  }
}

enum class Pipes { Refuse, Read };

std::string read_whole(const std::string& path, std::uint64_t most_bytes, Pipes pipes) {
  // O_NONBLOCK: must not wait for a pipe to get a writer.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) refuse_errno("open", path, errno);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) refuse_errno("look at", path, errno);
  if (S_ISDIR(status.st_mode)) refuse(path + " is a folder", path, "name a file in it");
  const bool is_pipe = pipes == Pipes::Read && S_ISFIFO(status.st_mode);
  if (!S_ISREG(status.st_mode) && !is_pipe) {
    refuse(path + " is not a regular file", path, "write its content to a file, and name that");
  }
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (!is_pipe && bytes > most_bytes) refuse_size(path, bytes, most_bytes);
  std::string content = read_to_end(fd.get(), path, most_bytes);
  if (is_pipe && content.empty()) {
    refuse(path + " is not a regular file but a pipe, which is empty and has no writer", path,
           "start what writes to it first, or write its content to a file, and name that");
  }
  return content;
}

}  // namespace

std::string read_regular_file(const std::string& path, std::uint64_t most_bytes) {
  return read_whole(path, most_bytes, Pipes::Refuse);
}

std::string read_file_or_pipe(const std::string& path, std::uint64_t most_bytes) {
  return read_whole(path, most_bytes, Pipes::Read);
}

}  // namespace lockstep
