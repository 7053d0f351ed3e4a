#include "lockstep/base/kernel_call.h"

#include <cerrno>

#include "lockstep/base/error.h"

namespace lockstep {

void throw_failed_call(const std::string& what, const std::string& call, int code, const std::string& where,
                       const std::string& fix) {
  if (code != ENOSYS && code != EPERM) throw Error(what + ": " + errno_text(code), where, fix);
  throw Error(what + ": the system call " + call + " is not there (" + errno_text(code) + ")", where,
              "run on Linux 5.4 or newer; in a container, allow " + call + " in its seccomp profile");
}

}  // namespace lockstep
