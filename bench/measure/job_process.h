// A launcher that a benchmark starts, and whose output it reads while the job runs.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

class JobProcess {
 public:
  /// Starts the command in a process group of its own. @throws Error  if it cannot be started
  explicit JobProcess(std::vector<std::string> command);
  /// Ends the job and all its processes.
  ~JobProcess();
  JobProcess(const JobProcess&) = delete;
  JobProcess& operator=(const JobProcess&) = delete;

  pid_t pid() const { return pid_; }
  /// The command in one line.
  std::string command() const;
  /// The next line of the job's output or errors.
  /// @throws Error  with the last lines, if the job has ended or nothing arrives for a minute
  std::string next_line();

 private:
  const std::vector<std::string> command_;
  pid_t pid_ = -1;
  UniqueFd output_;
  std::string text_;               // text that was read, up to the next line
  std::vector<std::string> last_;  // recent lines, for errors
};

}  // namespace lockstep
