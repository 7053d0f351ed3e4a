#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/comm/shm/all_reduce.h"
#include "lockstep/comm/shm/group.h"
#include "lockstep/comm/shm/idle_work.h"
#include "lockstep/comm/shm/in_flight_all_reduce.h"
#include "lockstep/comm/shm/memory/allocations.h"
#include "lockstep/comm/shm/pending_operations.h"

namespace lockstep::shm {

/// The collectives of a group in the order of their sequence numbers. A started all-reduce needs no thread: each later
/// call, and each poll whether it is over, advances all pending ones.
///
/// Any number can be pending. Those without a slot in shared memory wait here, and enter as slots become free. A thread
/// that waits here sees to that. If there is none, because all threads compute or wait elsewhere, a thread of this
/// object does. It starts when it is first needed, and sleeps whenever all pending operations have entered.
///
/// Thread-safe. No thread holds a lock while it waits for other ranks.
class OperationOrder {
 public:
  /// @param limit  returns the deadline of a wait that begins now. The time of an operation runs from when it is the
  /// oldest and some thread waits for it, or polls whether it is over
  OperationOrder(Group& group, Allocations& allocations, bool one_address_space, std::function<Deadline()> limit);
  ~OperationOrder() { close(); }
  OperationOrder(const OperationOrder&) = delete;
  OperationOrder& operator=(const OperationOrder&) = delete;

  void all_reduce(Call call, const Elements& elements, Reduction reduction);

  /// Starts an all-reduce, or returns null if only `all_reduce` can run it. Does not wait. `keep` is held until the
  /// operation is over.
  std::shared_ptr<InFlightAllReduce> start(Call call, const Elements& elements, Reduction reduction,
                                           std::shared_ptr<const void> keep);
  /// True once it is over, in success or failure. Advances what can be advanced without waiting, and notices lost
  /// ranks. Repeated polls count as a wait (see Looks): pending operations fail with a TimeoutError once the limit has
  /// passed.
  bool poll(InFlightAllReduce& started);
  /// @throws the error that ended it
  void wait(InFlightAllReduce& started);
  /// Advances pending operations without waiting: a thread that computes calls it between two pieces of its work.
  void progress() noexcept;

  /// Returns when all started operations are over. Call it before collective calls that are not operations.
  void finish_pending();

  /// Runs another collective. When `body` is called, all operations started before are over, and all ranks have entered
  /// and agree. `body` gets where every rank's data start (empty if not all ranks can access them) and the barrier.
  /// @param data  this rank's data in the operation
  /// @param bytes_of  the size of rank r's data
  using Body = std::function<void(const std::vector<std::byte*>& copies, const std::function<void()>& pass_round)>;
  void run(const Call& call, std::byte* data, const std::function<std::size_t(int rank)>& bytes_of, const Body& body);

  /// Call it before the group is destroyed: it ends the group if operations are still pending. A second call does
  /// nothing.
  void close() noexcept;

 private:
  using Lock = std::unique_lock<std::mutex>;
  class Alone;

  enum class Look { Passing, Waiting };
  bool try_move_on(Look look) noexcept;
  void look_at_peers(Look look);
  void drive(Lock& lock, const InFlightAllReduce* last);
  void await_first(Lock& lock, bool in_time);
  void fail_all(const std::exception_ptr& failure);
  void note_pending() noexcept;
  void call_helper();
  void help();

  Group& group_;
  Allocations& allocations_;
  const bool one_address_space_;
  const std::function<Deadline()> limit_;
  std::mutex mutex_;  // guards the members below
  AllReduce all_reduce_;
  PendingOperations<AllReduce, InFlightAllReduce> pending_;
  std::atomic<bool> has_pending_{false};  // read without the lock; counted in IdleWork
  int drivers_ = 0;                       // threads that wait here, and so advance pending operations
  bool closing_ = false;
  bool occupied_ = false;  // a thread uses `all_reduce_` without the lock, for an operation that is not pending
  std::condition_variable vacated_;
  InFlightAllReduce immediate_;  // used by that thread; kept, because an allocation costs more than a barrier
  std::condition_variable helper_needed_;
  std::thread helper_;
  std::optional<IdleWork> idle_work_;  // what threads that wait elsewhere do for this group
};

}  // namespace lockstep::shm
