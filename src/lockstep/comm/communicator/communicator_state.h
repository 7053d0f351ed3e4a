#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

#include "lockstep/base/home_process.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/communicator/work_queue.h"

namespace lockstep {

/// The state that a Communicator keeps between calls. Private to its source files.
struct Communicator::State {
  const HomeProcess home;
  std::atomic<std::uint64_t> next_collective{0};
  // Collectives share a queue, because their order is the same on every rank. Null once it was stopped.
  std::unique_ptr<WorkQueue> collectives = std::make_unique<WorkQueue>();
  std::mutex mutex;  // guards the members below, except atomic ones
  std::map<std::pair<OperationKind, int>, std::uint64_t> next_point_to_point;  // by direction and peer
  // Each direction and peer has its own queue, so that a receive that waits for its sender does not block a send. The
  // third number is the tag if the engine separates tags, else 0.
  std::map<std::tuple<OperationKind, int, int>, std::unique_ptr<WorkQueue>> messages;
  int splits = 0;
  std::mutex making_companion;  // held while it connects: the thread of a backward may be the second to need it
  std::unique_ptr<Communicator> companion;  // over the same ranks, for tensors on another kind of device
  Communicator* origin = nullptr;           // the communicator whose companion this is
  std::exception_ptr failure;
  std::string abort_reason;             // set if `failure` is an abort by this rank
  std::atomic<bool> has_thrown{false};  // why the group ended
  std::atomic<bool> dead{false};
  std::atomic<bool> is_closing{false};  // set by the destructor: an operation that ends now fails because of it
};

}  // namespace lockstep
