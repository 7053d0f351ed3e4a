#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/comm/shm/all_reduce.h"
#include "lockstep/comm/shm/allocations.h"
#include "lockstep/comm/shm/group.h"
#include "lockstep/comm/shm/started.h"

namespace lockstep::shm {

/// The collectives of a group in the order of their sequence numbers. A started all-reduce needs no thread: each later
/// call, and each look at whether it is over, moves on all that are pending.
///
/// Thread-safe: one call at a time goes on, others wait for it.
class OperationOrder {
 public:
  OperationOrder(Group& group, Allocations& allocations, bool one_address_space);

  void all_reduce(const Call& call, const Elements& elements, Reduction reduction);

  /// Starts an all-reduce, or returns null where only `all_reduce` can do it. `keep` is held until it is over.
  std::shared_ptr<Started> start(const Call& call, const Elements& elements, Reduction reduction,
                                 std::shared_ptr<const void> keep);
  /// True once it is over, well or not. Moves on what can be moved on without waiting.
  bool poll(Started& started);
  /// @throws what ended it
  void wait(Started& started);
  /// Moves on what is pending, without waiting: a thread that computes calls it between two pieces of its work.
  void progress() noexcept;

  /// Runs another collective: when `body` is called, all that was started before is over, all ranks have entered and
  /// agree. It gets where every rank's data begin, or nothing where some can't be reached by all, and the barrier.
  /// @param data      what this rank has in the operation
  /// @param bytes_of  how much rank r has
  using Body = std::function<void(const std::vector<std::byte*>& copies, const std::function<void()>& pass_round)>;
  void run(const Call& call, std::byte* data, const std::function<std::size_t(int rank)>& bytes_of, const Body& body);

  /// To be called before the group goes: ends it where operations are still under way.
  void close() noexcept;

 private:
  using Lock = std::unique_lock<std::mutex>;

  void launch(Started& started);
  void move_on();
  bool finish_first(bool may_wait);
  void finish_until(const Started* last);
  void fail_all(const std::exception_ptr& failure);

  Group& group_;
  Allocations& allocations_;
  const bool one_address_space_;
  std::mutex mutex_;  // guards all below
  AllReduce ways_;
  std::deque<std::shared_ptr<Started>> pending_;  // in order
  std::atomic<bool> has_pending_{false};          // read without the lock
  Started immediate_;  // of `all_reduce`; kept, because an allocation costs more than a barrier
};

}  // namespace lockstep::shm
