#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "lockstep/base/home_process.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/work_queue.h"

namespace lockstep {

/// What a Communicator keeps between calls. Private to its source files.
struct Communicator::State {
  const HomeProcess home;
  std::mutex mutex;
  std::uint64_t next_collective = 0;
  std::map<std::pair<OperationKind, int>, std::uint64_t> next_point_to_point;  // by direction and peer
  // Collectives share a queue, because their order is the same on every rank. Each peer and direction has its own, so
  // that a receive that waits for its sender does not hold up a send.
  std::map<std::pair<OperationKind, int>, std::unique_ptr<WorkQueue>> queues;
  int splits = 0;
  std::unique_ptr<Communicator> companion;  // of the same ranks, for tensors on another kind of device
  Communicator* origin = nullptr;           // whose companion this is
  std::exception_ptr failure;
  std::atomic<bool> dead{false};
  std::atomic<bool> is_closing{false};  // it is being destroyed: what ends now has failed for another reason
};

}  // namespace lockstep
