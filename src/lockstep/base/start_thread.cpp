#include "lockstep/base/start_thread.h"

#include <cerrno>

#include "lockstep/base/error.h"

namespace lockstep {

std::string advice_without_process(int code) {
  switch (code) {
    case EAGAIN:
      return "the limit of processes and threads is reached: raise ulimit -u, or pids.max of the control group, or end "
             "other processes";
    case EPERM:
    case ENOSYS:
      return "a sandbox (seccomp) refuses the system calls clone and clone3: let them pass, or let it answer ENOSYS to "
             "clone3 alone";
    case ENOMEM:
      return "free memory, or raise the limits of memory (ulimit -v, the control group's)";
    default:
      return "see the cause above";
  }
}

void refuse_thread(const std::string& purpose, const std::system_error& error) {
  throw Error("cannot start the thread that " + purpose + ": " + errno_text(error.code().value()), "this process",
              advice_without_process(error.code().value()));
}

}  // namespace lockstep
