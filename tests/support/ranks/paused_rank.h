#pragma once

#include <memory>
#include <thread>

#include "lockstep/detail/net/membership.h"

namespace lockstep {

/// Rank 1 of two processes, paused by SIGSTOP as by a debugger or with its virtual machine. To be made on both ranks.
class PausedRank {
 public:
  explicit PausedRank(const Membership& membership);
  /// Fails the test where rank 0 did not wait for rank 1.
  ~PausedRank();
  PausedRank(const PausedRank&) = delete;
  PausedRank& operator=(const PausedRank&) = delete;

  /// For the group under test: its store sees when this rank waits.
  const Membership& membership() const { return membership_; }
  /// Rank 1 stops. On rank 0 it returns once the store takes rank 1 for silent, which lasts as long as
  /// `RanksOptions::heartbeat_timeout`. What rank 0 does then meets a paused rank, until it has waited and looked at
  /// the lost ranks a few times: then rank 1 is woken.
  void pause();

 private:
  class WatchedStore;
  Membership membership_;
  std::shared_ptr<WatchedStore> watched_;  // of rank 0
  std::thread waker_;
};

}  // namespace lockstep
