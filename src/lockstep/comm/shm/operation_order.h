#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/comm/shm/allocations.h"
#include "lockstep/comm/shm/elements.h"
#include "lockstep/comm/shm/group.h"
#include "lockstep/comm/shm/reduce.h"
#include "lockstep/comm/shm/round_protocol.h"
#include "lockstep/comm/shm/slot_protocol.h"
#include "lockstep/comm/shm/tiny_protocol.h"

namespace lockstep::shm {

/// The operations of a group in the order of their sequence numbers: all-reduces, started or run, and the entry of
/// every other collective.
///
/// An all-reduce takes one of four ways, and all ranks take the same, because it depends only on what all can see:
/// tiny (one message to all), symmetric in place (where every rank's data can be reached by all), small (through
/// boxes), staged (in pieces through staging buffers). A started all-reduce needs no thread: each later call moves it
/// on.
///
/// Thread-safe: one call at a time goes on, others wait for it.
class OperationOrder {
 public:
  class Started;

  OperationOrder(Group& group, Allocations& allocations, bool one_address_space);

  void all_reduce(const Call& call, const Elements& elements, Reduction reduction);

  /// Starts an all-reduce, or returns null where only `all_reduce` can do it. `keep` is held until it is over.
  std::shared_ptr<Started> start(const Call& call, const Elements& elements, Reduction reduction,
                                 std::shared_ptr<const void> keep);
  /// True once it is over, well or not. Moves on what can be moved on without waiting.
  bool poll(Started& started);
  /// @throws what ended it
  void wait(Started& started);

  /// Runs another collective: when `body` is called, all that was started before is over, all ranks have entered and
  /// agree. It gets where every rank's data begin, or nothing where some can't be reached by all, and the barrier.
  /// @param data      what this rank has in the operation
  /// @param bytes_of  how much rank r has
  using Body = std::function<void(const std::vector<std::byte*>& copies, const std::function<void()>& pass_round)>;
  void run(const Call& call, std::byte* data, const std::function<std::size_t(int rank)>& bytes_of, const Body& body);
  /// To be called before the group goes: ends it where operations are still under way.
  void close() noexcept;

  /// Elements [first, second) of `count`: the slice of `rank`.
  std::pair<std::size_t, std::size_t> slice(const Elements& elements, int rank) const;
  std::size_t largest_tiny_bytes() const { return tiny_bytes_; }

 private:
  using Lock = std::unique_lock<std::timed_mutex>;

  void launch(const std::shared_ptr<Started>& started);
  void launch_tiny(Started& started);
  void launch_slot(Started& started);
  Location locate(const std::byte* data, const SymmetricBuffer* buffer) const;
  void move_on();
  bool step(Started& started, bool may_wait);
  bool step_tiny(Started& started, bool may_wait);
  bool step_slot(Started& started, bool may_wait);
  void resolve(Started& started);
  void advance(Started& started);
  std::vector<std::byte*> reachable(const Call& call, const std::function<std::size_t(int rank)>& bytes_of,
                                    const SymmetricBuffer* buffer);
  void run_small(Started& started);
  void work_slice(Started& started, int owner);
  void help_others(Started& started);
  void finish_until(const Started* last);
  void fail_all(const std::exception_ptr& failure);
  void check_announcements(const Call& call);

  Group& group_;
  Allocations& allocations_;
  const bool one_address_space_;
  const std::size_t tiny_bytes_;
  std::timed_mutex mutex_;  // guards all below
  SlotProtocol<Group> slots_;
  TinyProtocol<Group> tiny_;
  RoundProtocol<Group> rounds_;
  std::uint64_t small_boxes_used_ = 0;
  std::deque<std::shared_ptr<Started>> pending_;  // in order
};

}  // namespace lockstep::shm
