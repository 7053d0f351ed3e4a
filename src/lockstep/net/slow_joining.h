#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "lockstep/base/deadline.h"

namespace lockstep {

/// While it lives, this rank waits for others to join. If the wait lasts, the log reports it, and how to make the limit
/// longer or shorter.
class SlowJoining {
 public:
  /// @param where  "rank 1 of 4 on host-a"  @param address  of the store
  SlowJoining(const std::string& where, const std::string& address, int world_size, Deadline deadline);
  ~SlowJoining();
  SlowJoining(const SlowJoining&) = delete;
  SlowJoining& operator=(const SlowJoining&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace lockstep
