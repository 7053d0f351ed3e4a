#include "lockstep/net/meeting_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/processor/topology.h"

namespace lockstep {
namespace {

constexpr std::string_view kHeading = "lockstep rendezvous 1";
constexpr std::size_t kMaxBytes = 8192;
constexpr auto kLockPause = std::chrono::milliseconds(10);

std::string content_of(const MeetingPoint& point) {
  return fmt::format("{}\n{}\n{}\n", kHeading, point.address.text(), point.secret);
}

std::optional<MeetingPoint> parse(const std::string& content) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < content.size();) {
    const std::size_t end = content.find('\n', begin);
    if (end == std::string::npos) return std::nullopt;
    lines.push_back(content.substr(begin, end - begin));
    begin = end + 1;
  }
  if (lines.size() != 3 || lines[0] != kHeading) return std::nullopt;
  try {
    return MeetingPoint{SocketAddress::parse(lines[1]), lines[2]};
  } catch (const Error&) {
    return std::nullopt;
  }
}

[[noreturn]] void fail(const std::string& action, const std::string& path, int code) {
  throw Error(fmt::format("cannot {} the rendezvous file {}: {}", action, path, errno_text(code)), host_name(),
              "check that its folder exists and that you may write there");
}

std::string read_all(int fd, const std::string& path) {
  std::array<char, kMaxBytes> block;
  const ssize_t got = ::pread(fd, block.data(), block.size(), 0);
  if (got < 0) fail("read", path, errno);
  return std::string(block.data(), static_cast<std::size_t>(got));
}

}  // namespace

// The path may have been removed or replaced between open and lock.
bool MeetingFile::is_current(int fd) const {
  struct stat opened {};
  struct stat named {};
  return ::fstat(fd, &opened) == 0 && ::lstat(path_.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

UniqueFd MeetingFile::open_locked(int flags, int lock, Deadline deadline) const {
  for (;;) {
    UniqueFd fd(::open(path_.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
    if (!fd) {
      if (errno == ENOENT && (flags & O_CREAT) == 0) return fd;
      fail("open", path_, errno);
    }
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != ::geteuid()) {
      throw Error(fmt::format("the rendezvous file {} is not a file of this user", path_), host_name(),
                  "name a file that does not exist yet, in a folder of your own");
    }
    if (::flock(fd.get(), lock | LOCK_NB) == 0) {
      const bool is_open_to_others = (status.st_mode & 077) != 0;
      if (is_current(fd.get())) {
        if (!is_open_to_others || (flags & O_CREAT) == 0) return fd;
        // A process that opened it before could read the secret that is about to be written, so make a new file.
        ::unlink(path_.c_str());
        continue;
      }
    } else if (errno != EWOULDBLOCK && errno != EINTR) {
      fail("lock", path_, errno);
    }
    if (deadline.passed()) {
      throw TimeoutError(fmt::format("another process holds the lock of the rendezvous file {}", path_), host_name(),
                         "end the process that holds it (`fuser " + path_ + "` shows it), or name another file");
    }
    std::this_thread::sleep_for(std::min<std::chrono::milliseconds>(kLockPause, deadline.remaining()));
  }
}

void MeetingFile::publish(const MeetingPoint& point, Deadline deadline) const {
  const UniqueFd fd = open_locked(O_RDWR | O_CREAT, LOCK_EX, deadline);
  const std::string content = content_of(point);
  if (::ftruncate(fd.get(), 0) != 0 ||
      ::pwrite(fd.get(), content.data(), content.size(), 0) != static_cast<ssize_t>(content.size())) {
    fail("write", path_, errno);
  }
}

std::optional<MeetingPoint> MeetingFile::read(Deadline deadline) const {
  const UniqueFd fd = open_locked(O_RDONLY, LOCK_SH, deadline);
  return fd ? parse(read_all(fd.get(), path_)) : std::nullopt;
}

void MeetingFile::remove(const MeetingPoint& point, Deadline deadline) const {
  const UniqueFd fd = open_locked(O_RDWR, LOCK_EX, deadline);
  if (fd && read_all(fd.get(), path_) == content_of(point)) ::unlink(path_.c_str());
}

bool MeetingFile::on_local_file_system() const {
  constexpr std::array<long, 8> kLocal{EXT4_SUPER_MAGIC,      XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC,
                                       TMPFS_MAGIC,           RAMFS_MAGIC,     F2FS_SUPER_MAGIC,
                                       OVERLAYFS_SUPER_MAGIC, 0x2fc12fc1};  // the last one is ZFS
  const auto parent = std::filesystem::path(path_).parent_path();
  struct statfs status {};
  if (::statfs(parent.c_str(), &status) != 0) fail("examine", path_, errno);
  return std::find(kLocal.begin(), kLocal.end(), static_cast<long>(status.f_type)) != kLocal.end();
}

}  // namespace lockstep
