#include "lockstep/checkpoint/files/staging_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/files/is_file_at.h"
#include "lockstep/checkpoint/files/staged_file.h"

namespace lockstep {
namespace {

constexpr std::time_t kADay = 24 * 60 * 60;

bool knows_no_locks(int code) { return code != EWOULDBLOCK && code != EINTR; }

}  // namespace

StagingLock::StagingLock(const std::string& path) : file_(path + kEnding) {
  for (;;) {
    fd_ = UniqueFd(::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!fd_) fail_to("make", std::exchange(file_, std::string()));
    const bool is_locked = ::flock(fd_.get(), LOCK_EX | LOCK_NB) == 0;
    const int code = errno;
    // Another process may have removed it as a leftover.
    if (is_locked ? is_file_at(fd_.get(), file_) : knows_no_locks(code)) return;
  }
}

StagingLock::StagingLock(StagingLock&& other) noexcept
    : file_(std::exchange(other.file_, std::string())), fd_(std::move(other.fd_)) {}

StagingLock& StagingLock::operator=(StagingLock&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(fd_, other.fd_);
  return *this;
}

// Removed while locked, so that no process can take the name for a leftover and remove the next holder's file.
StagingLock::~StagingLock() {
  if (!file_.empty()) ::unlink(file_.c_str());
}

bool StagingLock::is_held(const std::string& path) {
  const std::string file = path + kEnding;
  const UniqueFd fd(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) return errno == EACCES;  // another user's, who may be alive
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return false;
  if (!knows_no_locks(errno)) return true;
  struct stat status {};
  return ::fstat(fd.get(), &status) == 0 && std::time(nullptr) - status.st_mtime < kADay;
}

}  // namespace lockstep
