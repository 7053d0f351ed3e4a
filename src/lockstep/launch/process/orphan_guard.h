#pragma once

#include <sys/types.h>

#include <string>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// A small process that ends the job's processes if this process dies without ending them, even by SIGKILL: it waits on
/// a pipe whose other end then closes. It kills the process groups added to it, and every process whose environment
/// carries the job's mark, such as a grandchild in its own session. Then it removes the job's folder.
class OrphanGuard {
 public:
  /// Forks: call it while this process has only one thread.
  /// @param mark  value of the variable `kJobMarkVariable` in the job's processes
  /// @param folder  removed with everything in it
  /// @throws Error  if the process cannot be started
  OrphanGuard(const std::string& mark, const std::string& folder);
  /// Dismisses the guard, which removes the folder before it ends, so that at every moment some process is responsible
  /// for it.
  ~OrphanGuard();
  OrphanGuard(const OrphanGuard&) = delete;
  OrphanGuard& operator=(const OrphanGuard&) = delete;

  pid_t pid() const { return pid_; }
  void add_group(pid_t group);
  void remove_group(pid_t group);

 private:
  void send(char what, pid_t group);

  UniqueFd pipe_;
  pid_t pid_ = -1;
};

}  // namespace lockstep
