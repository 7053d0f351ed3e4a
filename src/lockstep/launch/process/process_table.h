#pragma once

#include <sys/types.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"

namespace lockstep {

/// Living processes (no zombies) that descend from `ancestor`, itself not included, without those of `except` and what
/// descends from them.
std::vector<pid_t> descendants(pid_t ancestor, const std::set<pid_t>& except);

/// Processes of this user whose environment at their start had the variable `name` with the value `value`, or with a
/// value that starts with `value` and a slash.
std::vector<pid_t> processes_with(const std::string& name, const std::string& value);

/// Makes this process the parent of descendants whose own parent has ended, so that none can get out of sight.
void adopt_orphans();

/// Takes the ended children of this process off the kernel's list, such as adopted ones, up to the first one for which
/// `is_waited_for` says that somebody else will; those of `except` are left alone.
void reap_orphans(const std::set<pid_t>& except, const std::function<bool(pid_t)>& is_waited_for);

/// A signal that was sent to process groups already.
struct SentSignal {
  int number = 0;  ///< 0: none was sent
  std::set<pid_t> groups;
};

/// Ends all descendants but `except`, and reaps them: SIGTERM to those that have not had `sent`, or ignore it; SIGKILL
/// to all that are left at `kill_at`, or once `is_urgent` says so.
/// @return  those that live still 5 s after that: they hang in the kernel
std::vector<pid_t> end_descendants(const std::set<pid_t>& except, const SentSignal& sent, Deadline kill_at,
                                   const std::function<bool()>& is_urgent);

}  // namespace lockstep
