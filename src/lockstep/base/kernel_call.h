#pragma once

#include <string>

namespace lockstep {

/// Throws the Error of a system call that failed with `code`. If the call is not available here (ENOSYS, or EPERM for
/// calls that need no rights), the error names the call, because the text of errno does not: the kernel is too old, or
/// the seccomp profile of a container forbids the call.
/// @param what  what could not be done: "cannot watch process 12"
/// @param call  name of the system call
/// @param fix  advice for all other codes
[[noreturn]] void throw_failed_call(const std::string& what, const std::string& call, int code,
                                    const std::string& where, const std::string& fix);

}  // namespace lockstep
