#include "lockstep/comm/shm/peers/process_watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/files/unique_fd.h"
#include "lockstep/base/kernel_call.h"

namespace lockstep::shm {
namespace {

class ProcessWatch : public PeerWatch {
 public:
  ProcessWatch(const std::vector<pid_t>& pids, int self) {
    for (int rank = 0; rank < static_cast<int>(pids.size()); ++rank) {
      if (rank != self) add(rank, pids[static_cast<std::size_t>(rank)]);
    }
  }

  std::vector<LostPeer> lost() override {
    std::vector<LostPeer> gone = gone_before_;
    if (::poll(polls_.data(), polls_.size(), 0) <= 0) return gone;
    for (std::size_t i = 0; i < polls_.size(); ++i) {
      if (polls_[i].revents != 0) gone.push_back({ranks_[i], "its process ended"});
    }
    return gone;
  }

 private:
  void add(int rank, pid_t pid) {
    UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!fd && errno == ESRCH) {
      gone_before_.push_back({rank, fmt::format("process {} does not exist", pid)});
      return;
    }
    if (!fd) {
      throw_failed_call(fmt::format("cannot watch process {} of rank {}", pid, rank), "pidfd_open", errno,
                        "shared memory", "raise the limit of open files (ulimit -n), or use engine gloo");
    }
    polls_.push_back({fd.get(), POLLIN, 0});
    ranks_.push_back(rank);
    fds_.push_back(std::move(fd));
  }

  std::vector<UniqueFd> fds_;
  std::vector<pollfd> polls_;
  std::vector<int> ranks_;
  std::vector<LostPeer> gone_before_;
};

}  // namespace

std::unique_ptr<PeerWatch> watch_processes(const std::vector<pid_t>& pids, int self) {
  return std::make_unique<ProcessWatch>(pids, self);
}

}  // namespace lockstep::shm
