#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"

namespace lockstep {

/// Living processes (no zombies) that descend from `ancestor`, itself not included, without `except` and what descends
/// from it.
std::vector<pid_t> descendants(pid_t ancestor, pid_t except);

/// Processes of this user whose environment at their start had the variable `name` with the value `value`, or with a
/// value that starts with `value` and a slash.
std::vector<pid_t> processes_with(const std::string& name, const std::string& value);

/// Makes this process the parent of descendants whose own parent has ended, so that none can get out of sight.
void adopt_orphans();

/// Takes the ended children of this process off the kernel's list, such as adopted ones, up to the first one for which
/// `is_waited_for` says that somebody else will; `except` is left alone.
void reap_orphans(pid_t except, const std::function<bool(pid_t)>& is_waited_for);

/// Ends all descendants but `except`: SIGTERM, and SIGKILL after `grace`; SIGKILL at once where it is zero. Reaps them.
/// @return  those that live still, 5 s after SIGKILL: they hang in the kernel
std::vector<pid_t> end_descendants(pid_t except, std::chrono::milliseconds grace);

}  // namespace lockstep
