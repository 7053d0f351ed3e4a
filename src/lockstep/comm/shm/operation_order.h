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
#include "lockstep/comm/shm/memory/allocations.h"
#include "lockstep/comm/shm/pending_operations.h"
#include "lockstep/comm/shm/started.h"

namespace lockstep::shm {

/// The collectives of a group in the order of their sequence numbers. A started all-reduce needs no thread: each later
/// call, and each look at whether it is over, moves on all that are pending.
///
/// Any number can be pending. Those that have no slot in shared memory yet wait here, and enter as slots get free:
/// whoever waits here sees to that, and where nobody does, because all threads compute or wait elsewhere, a thread of
/// this object. It starts when it is first needed, and sleeps whenever all that is pending has entered.
///
/// Thread-safe. No thread holds a lock while it waits for other ranks.
class OperationOrder {
 public:
  /// @param limit  the deadline of a wait that begins now: an operation's runs from when it is the oldest one and
  ///               somebody waits for it, or asks again and again whether it is over
  OperationOrder(Group& group, Allocations& allocations, bool one_address_space, std::function<Deadline()> limit);
  ~OperationOrder() { close(); }
  OperationOrder(const OperationOrder&) = delete;
  OperationOrder& operator=(const OperationOrder&) = delete;

  void all_reduce(const Call& call, const Elements& elements, Reduction reduction);

  /// Starts an all-reduce, or returns null where only `all_reduce` can do it. Waits for nobody. `keep` is held until it
  /// is over.
  std::shared_ptr<Started> start(const Call& call, const Elements& elements, Reduction reduction,
                                 std::shared_ptr<const void> keep);
  /// True once it is over, well or not. Moves on what can be moved on without waiting, and notices lost ranks. Asked
  /// again and again, it is a wait (see Looks): what is pending fails with a TimeoutError once the limit has passed.
  bool poll(Started& started);
  /// @throws what ended it
  void wait(Started& started);
  /// Moves on what is pending, without waiting: a thread that computes calls it between two pieces of its work.
  void progress() noexcept;

  /// Returns when all that was started is over: before calls that all ranks make, and that are no operations.
  void finish_pending();

  /// Runs another collective: when `body` is called, all that was started before is over, all ranks have entered and
  /// agree. It gets where every rank's data begin, or nothing where some can't be reached by all, and the barrier.
  /// @param data      what this rank has in the operation
  /// @param bytes_of  how much rank r has
  using Body = std::function<void(const std::vector<std::byte*>& copies, const std::function<void()>& pass_round)>;
  void run(const Call& call, std::byte* data, const std::function<std::size_t(int rank)>& bytes_of, const Body& body);

  /// To be called before the group goes: ends it where operations are still under way. Again: nothing.
  void close() noexcept;

 private:
  using Lock = std::unique_lock<std::mutex>;
  class Alone;

  enum class Look { Passing, Waiting };
  bool try_move_on(Look look) noexcept;
  void look_at_peers(Look look);
  void drive(Lock& lock, const Started* last);
  void await_first(Lock& lock, bool in_time);
  void fail_all(const std::exception_ptr& failure);
  void note_pending();
  void call_helper();
  void help();

  Group& group_;
  Allocations& allocations_;
  const bool one_address_space_;
  const std::function<Deadline()> limit_;
  std::mutex mutex_;  // guards all below
  AllReduce ways_;
  PendingOperations<AllReduce, Started> pending_;
  std::atomic<bool> has_pending_{false};  // read without the lock
  int drivers_ = 0;                       // threads that wait here, and so move on what is pending
  bool closing_ = false;
  bool occupied_ = false;  // a thread uses `ways_` without the lock, for an operation that is not among the pending
  std::condition_variable vacated_;
  Started immediate_;  // that thread's; kept, because an allocation costs more than a barrier
  std::condition_variable helper_needed_;
  std::thread helper_;
  std::optional<IdleWork> idle_work_;  // what threads that wait elsewhere do for this group
};

}  // namespace lockstep::shm
