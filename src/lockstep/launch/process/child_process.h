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
  std::vector<int> cores;                ///< the cores it may run on; empty: this process's cores
  int out = -1;                          ///< descriptor that becomes its stdout; -1: this process's
  int err = -1;                          ///< descriptor that becomes its stderr; -1: this process's
  std::vector<int> kept;                 ///< descriptors that stay open in the program, under their numbers
};

/// A process that was started and not yet waited for.
struct ChildProcess {
  pid_t pid = -1;   ///< also the number of its process group and session
  UniqueFd pidfd;   ///< readable once the process has ended
  UniqueFd report;  ///< shows whether it has become the program; read by confirm_start
};

/// The program's file, found as execvp(3) finds it; `name` itself if it contains a slash.
/// @throws Error  that names the program, if it is not found
std::string find_program(const std::string& name);

/// Starts a program in its own session, so that a signal to its process group also reaches the processes that it
/// starts. The program is killed when the thread that started it ends, for whatever reason. Does not wait until the
/// program runs, so that many can start side by side: see `confirm_start`.
/// @throws Error  that names the program, if it is not found, or the kernel cannot create another process
ChildProcess start_child(const ChildCommand& command);

/// Waits until the program runs, unless this was confirmed before. Programs may be confirmed in any order.
/// @throws Error  that names the program, if it may not be executed or is not a program; it has then been waited for,
/// and `child.pid` is -1
void confirm_start(ChildProcess& child, const ChildCommand& command);

}  // namespace lockstep
