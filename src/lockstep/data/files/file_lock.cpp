#include "lockstep/data/files/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "lockstep/base/error.h"

namespace lockstep {

FileLock::FileLock(const std::string& path, const Deadline& deadline)
    : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
  if (!fd_) throw Error("cannot make the lock file: " + errno_text(errno), path, "check the folder's permissions");
  constexpr auto kBetweenTries = std::chrono::milliseconds(20);
  while (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return;
    if (deadline.passed()) {
      throw TimeoutError("another process held the lock for the whole time", path,
                         "check whether it is still running, or raise the timeout");
    }
    std::this_thread::sleep_for(kBetweenTries);
  }
}

}  // namespace lockstep
