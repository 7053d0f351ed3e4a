#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "lockstep/comm/reduce/element_range.h"
#include "lockstep/comm/shm/group.h"
#include "lockstep/comm/shm/in_flight_all_reduce.h"
#include "lockstep/comm/shm/memory/allocations.h"
#include "lockstep/comm/shm/protocols/round_protocol.h"
#include "lockstep/comm/shm/protocols/slot_protocol.h"
#include "lockstep/comm/shm/protocols/tiny_protocol.h"

namespace lockstep::shm {

/// The range [first, second) of `elements` that is the slice of `rank`. The starts of slices share no cache line if the
/// data starts at a cache line.
std::pair<std::size_t, std::size_t> slice_of(const Elements& elements, int rank, int world_size);

/// The algorithms of an all-reduce. All ranks choose the same one, because the choice depends only on values that all
/// of them see:
/// - tiny: one message to all, with its flag;
/// - in place, if all ranks can access every rank's data: each rank reduces its slice directly from all into all;
/// - small: through a box of each rank; every rank reduces;
/// - staged: in pieces through staging buffers.
///
/// One thread at a time, apart from `await`: OperationOrder ensures that.
class AllReduce {
 public:
  AllReduce(Group& group, Allocations& allocations, bool one_address_space);

  bool is_tiny(const Elements& elements) const { return elements.bytes() <= tiny_bytes_; }
  /// Makes `it` an operation that has not entered.
  static void prepare(InFlightAllReduce& it, Call call, const Elements& elements, Reduction reduction);

  // Called by PendingOperations: nothing here waits.

  /// True if `enter` has a slot, and a box if the operation is tiny.
  bool may_enter(const InFlightAllReduce& started);
  /// Shows the other ranks that this one has entered with its data. Waits for the slot if `may_enter` is false.
  void enter(InFlightAllReduce& started);
  /// Does this rank's share, if all have entered.
  void advance(InFlightAllReduce& started);
  /// Advances the first pending operation; true once it is over.
  bool step(InFlightAllReduce& started);

  // For callers that wait.

  /// An action of other ranks for which the operation waits.
  struct Hurdle {
    enum class What { Slot, Arrivals, Entries, Chunks, Round };
    What what = What::Slot;
    std::uint64_t number = 0;  ///< of the message or the round, or chunks of a slice
    const Call* call = nullptr;
  };
  /// The hurdle of the first pending operation, for which `step` returned false. @param call  the operation's, or a
  /// copy with another deadline; must outlive the hurdle
  static Hurdle hurdle(const InFlightAllReduce& started, const Call& call);
  /// Returns once the hurdle is taken, or once `over` is true, which another thread of this rank may set. From any
  /// thread.
  void await(const Hurdle& hurdle, const std::atomic<bool>& over);
  /// Notices lost ranks for which the operation waits, without waiting itself.
  /// @param looks  not null: this call is one of them, and they end at their deadline
  /// @throws Error  if the group has ended, or if this call ends it
  void look_at_peers(const InFlightAllReduce& started, Looks* looks);
  /// Takes chunks of an operation that others have not started; true if all chunks are then finished.
  bool help(InFlightAllReduce& started);
  /// Completes an operation that has entered while no other is pending.
  void finish(InFlightAllReduce& started);

  // For the other collectives.

  /// Enters; returns when all ranks have entered and agree.
  void meet(const Call& call, const std::byte* data, const SymmetricBuffer* buffer);
  void pass_round(const Call& call) { rounds_.pass(call); }
  void retire(const Call& call) { slots_.retire(call.sequence); }
  /// The start of every rank's data, by rank; empty unless all ranks can access all of it. Equal on all ranks: they
  /// read the same locations, and each has mapped the segment that contains its own data. All ranks must have entered.
  template <class BytesOf>
  void find_copies(std::vector<std::byte*>& copies, const Call& call, BytesOf&& bytes_of,
                   const SymmetricBuffer* buffer) {
    copies.clear();
    for (int rank = 0; rank < group_.world_size(); ++rank) {
      const Location location = slots_.location(call.sequence, rank);
      if (one_address_space_ && location.segment == kPointer) {
        const auto address = static_cast<std::uintptr_t>(location.offset);
        copies.push_back(reinterpret_cast<std::byte*>(address));  // NOLINT(performance-no-int-to-ptr): a rank wrote it
      } else if (buffer != nullptr && location.segment == buffer->segment() &&
                 location.offset <= buffer->part_bytes() && bytes_of(rank) <= buffer->part_bytes() - location.offset) {
        copies.push_back(buffer->part(rank) + location.offset);
      } else {
        copies.clear();
        return;
      }
    }
  }

 private:
  void enter_tiny(InFlightAllReduce& started);
  void enter_slot(InFlightAllReduce& started);
  bool step_tiny(InFlightAllReduce& started);
  bool is_taken(const Hurdle& hurdle);
  bool is_missing(const Hurdle& hurdle, int rank);
  void resolve(InFlightAllReduce& started);
  void run_small(InFlightAllReduce& started);
  void work_slice(InFlightAllReduce& started, int owner);
  void check_announcements(const Call& call);
  Location locate(const std::byte* data, const SymmetricBuffer* buffer) const;

  Group& group_;
  Allocations& allocations_;
  const bool one_address_space_;
  const std::size_t tiny_bytes_;
  SlotProtocol<Group> slots_;
  TinyProtocol<Group> tiny_;
  RoundProtocol<Group> rounds_;
  std::uint64_t small_boxes_used_ = 0;
};

}  // namespace lockstep::shm
