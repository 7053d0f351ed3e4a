#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// How a program ended, and all that it wrote.
struct ProgramEnd {
  int code = -1;   ///< exit code; -1 where a signal ended it
  int signal = 0;  ///< that signal
  std::string out;
  std::string err;
};

/// A real process started by a test, its stdout and stderr read as they come. Killed, and waited for, when the object
/// goes.
class RunningProgram {
 public:
  /// @param changes  variables to set, or to unset if there is no value, in a copy of this process's environment
  explicit RunningProgram(const std::vector<std::string>& arguments,
                          const std::map<std::string, std::optional<std::string>>& changes = {});
  ~RunningProgram();
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  pid_t pid() const { return pid_; }
  void send(int signal) const;
  /// Reads until the output, both streams together, holds `text`. @return  false if it ends or time is up before
  bool wait_for(const std::string& text, Deadline deadline);
  /// Reads the next output. @return  false if both streams have ended, or time is up before
  bool wait_for_more(Deadline deadline);
  const std::string& out() const { return out_; }
  const std::string& err() const { return err_; }
  /// Reads to the end of both streams and waits for the process. @throws std::runtime_error  at the deadline
  ProgramEnd wait(Deadline deadline);

 private:
  bool read_some(Deadline deadline);

  pid_t pid_ = -1;
  UniqueFd out_fd_;
  UniqueFd err_fd_;
  std::string out_;
  std::string err_;
};

/// Starts a program and waits for its end, at most `timeout`.
ProgramEnd run_program(const std::vector<std::string>& arguments,
                       const std::map<std::string, std::optional<std::string>>& changes = {},
                       std::chrono::seconds timeout = std::chrono::seconds(60));

/// Waits until the process `pid`, which need not be a child, has ended. @return  false at the deadline
bool wait_until_gone(pid_t pid, Deadline deadline);

}  // namespace lockstep
