#pragma once

#include <sys/types.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"

namespace lockstep {

/// Living processes (no zombies) that descend from `ancestor`, without `ancestor` itself, and without those in `except`
/// and their descendants.
std::vector<pid_t> descendants(pid_t ancestor, const std::set<pid_t>& except);

/// Whether the process runs (a zombie does not) and is a child of `parent`.
bool is_running_child(pid_t pid, pid_t parent);

/// Whether the process catches the signal, ignores it or holds it back, so that it does not end by it; false if the
/// process is not there.
bool takes_signal(pid_t pid, int number);

/// Processes of this user that started with the variable `name` set to `value`, or to `value` followed by a slash and
/// more.
std::vector<pid_t> processes_with(const std::string& name, const std::string& value);

/// Makes this process the parent of descendants whose own parent has ended, so that no descendant can escape.
void adopt_orphans();

/// Reaps the ended children of this process, such as adopted ones, up to the first one that other code waits for
/// according to `is_waited_for`; leaves those in `except` alone.
void reap_orphans(const std::set<pid_t>& except, const std::function<bool(pid_t)>& is_waited_for);

/// A signal that was already sent to process groups.
struct SentSignal {
  int number = 0;  ///< 0: none was sent
  std::set<pid_t> groups;
};

/// Ends all descendants except those in `except`, and reaps them: SIGTERM to those that did not get `sent` or ignore
/// it; SIGKILL to all that are left at `kill_at`, or as soon as `is_urgent` returns true.
/// @return  those that still live 5 s after that: they hang in the kernel
std::vector<pid_t> end_descendants(const std::set<pid_t>& except, const SentSignal& sent, Deadline kill_at,
                                   const std::function<bool()>& is_urgent);

}  // namespace lockstep
