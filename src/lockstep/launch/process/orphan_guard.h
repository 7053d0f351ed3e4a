#pragma once

#include <sys/types.h>

#include <set>
#include <string>

#include "lockstep/base/files/unique_fd.h"
#include "lockstep/launch/process/event_loop.h"

namespace lockstep {

/// A small process that ends the job's processes if this process dies without ending them, even by SIGKILL: it waits on
/// a pipe whose other end then closes. It kills the process groups added to it, and every process whose environment
/// carries the job's mark, such as a grandchild in its own session. Then it removes the job's folder. If it was
/// stopped, it continues when this process's first thread ends.
class OrphanGuard {
 public:
  /// Forks: call it while this process has only one thread, or is about to.
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
  /// Readable once the guard has ended; -1 if the kernel cannot tell.
  int pidfd() const { return pidfd_.get(); }
  /// The guard has ended, though nobody has dismissed it: another one takes its place, and knows the same groups.
  /// @return  how the old one ended
  /// @throws Error  if no process can be started: then there is no guard
  std::string renew();
  void add_group(pid_t group);
  void remove_group(pid_t group);

 private:
  void start();
  void send(char what, pid_t group) const;

  std::string mark_;
  std::string folder_;
  std::set<pid_t> groups_;
  UniqueFd pipe_;
  UniqueFd pidfd_;
  pid_t pid_ = -1;
};

/// Watches a guard while it lives, and renews it whenever it has ended. Warns of it.
class GuardWatch {
 public:
  /// @param loop, guard  outlive this object
  GuardWatch(EventLoop& loop, OrphanGuard& guard);
  ~GuardWatch();
  GuardWatch(const GuardWatch&) = delete;
  GuardWatch& operator=(const GuardWatch&) = delete;

 private:
  void watch();
  void replace();

  EventLoop& loop_;
  OrphanGuard& guard_;
  EventLoop::Token token_ = 0;
  int renewed_ = 0;
};

}  // namespace lockstep
