#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// A program to start.
struct ChildCommand {
  std::vector<std::string> arguments;    ///< the program, found on the PATH, and its arguments
  std::vector<std::string> environment;  ///< "NAME=value"
  std::vector<int> cores;                ///< where it may run; empty: wherever this process may
  int out = -1;                          ///< descriptor that becomes its stdout; -1: this process's
  int err = -1;                          ///< the same for stderr
  int kept = -1;                         ///< descriptor that stays open in the program, under its number; -1: none
};

/// A process that was started and not waited for yet.
struct ChildProcess {
  pid_t pid = -1;   ///< also the number of its process group and session
  UniqueFd pidfd;   ///< readable once the process has ended
  UniqueFd report;  ///< says whether it has become the program; read by confirm_start
};

/// The program's file, as execvp(3) would find it; `name` itself where it has a slash.
/// @throws Error  that names the program, if it is not found
std::string find_program(const std::string& name);

/// Starts a program in a session of its own, so that a signal to its process group reaches what it starts in turn. It
/// is killed when the thread that started it ends, however that ends. Does not wait until the program runs: see
/// `confirm_start`, so that many can start side by side.
/// @throws Error  that names the program, if it is not found, or the kernel has no room for another process
ChildProcess start_child(const ChildCommand& command);

/// Waits until the program runs, if nobody has done so before. In any order.
/// @throws Error  that names the program, if it may not be executed or is no program; it has been waited for then, and
///                `child.pid` is -1
void confirm_start(ChildProcess& child, const ChildCommand& command);

}  // namespace lockstep
