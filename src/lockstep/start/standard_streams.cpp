#include "lockstep/start/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>

namespace lockstep {

void open_missing_streams() noexcept {
  const int saved_errno = errno;
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(number, F_GETFD) >= 0 || errno != EBADF) continue;
    const int opened = ::open("/dev/null", number == STDIN_FILENO ? O_RDONLY : O_WRONLY);
    if (opened == number || opened < 0) continue;
    // Another thread was faster, or closed a lower descriptor.
    ::dup2(opened, number);
    ::close(opened);
  }
  errno = saved_errno;
}

}  // namespace lockstep
