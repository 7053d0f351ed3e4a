#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep::testing {

/// The body of a child process, found by name: `main` calls it instead of the tests. Returns the exit code.
using ChildRole = std::function<int(const std::vector<std::string>& arguments)>;
std::map<std::string, ChildRole>& child_roles();

/// Registers a role while static objects are constructed.
struct RegisterChildRole {
  RegisterChildRole(const std::string& name, ChildRole role) { child_roles()[name] = std::move(role); }
};

/// This test program in another process, in one of its roles. The destructor kills it if it still runs.
class ChildProcess {
 public:
  /// @param environment  added to this process's environment, without the variables of a job
  ChildProcess(const std::string& role, const std::vector<std::string>& arguments,
               const std::map<std::string, std::string>& environment = {});
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  /// Waits until it ends. @return  exit code, or minus the signal's number
  int wait();
  /// Everything that it wrote to standard output and error; valid after `wait`.
  const std::string& output() const { return output_; }

 private:
  pid_t pid_ = -1;
  UniqueFd pipe_;
  std::string output_;
};

}  // namespace lockstep::testing
