#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "lockstep/comm/shm/allocations.h"
#include "lockstep/comm/shm/elements.h"
#include "lockstep/comm/shm/group.h"
#include "lockstep/comm/shm/round_protocol.h"
#include "lockstep/comm/shm/slot_protocol.h"
#include "lockstep/comm/shm/started.h"
#include "lockstep/comm/shm/tiny_protocol.h"

namespace lockstep::shm {

/// Elements [first, second) of `elements` that are the slice of `rank`: begins of slices share no line of the cache
/// where the data begins with one.
std::pair<std::size_t, std::size_t> slice_of(const Elements& elements, int rank, int world_size);

/// The ways of an all-reduce. All ranks take the same, because it depends on what all of them see:
/// - tiny: one message to all, with its flag;
/// - in place, where every rank's data can be reached by all: each rank reduces its slice straight from all into all;
/// - small: through a box of each rank, reduced by everybody;
/// - staged: in pieces through staging buffers.
///
/// No locks: OperationOrder lets one thread in at a time.
class AllReduce {
 public:
  AllReduce(Group& group, Allocations& allocations, bool one_address_space);

  std::size_t largest_tiny_bytes() const { return tiny_bytes_; }
  bool is_tiny(const Elements& elements) const { return elements.bytes() <= tiny_bytes_; }
  /// True where one more may be launched before the oldest tiny one is over.
  bool may_launch(const Elements& elements) const { return !is_tiny(elements) || tiny_.may_send(); }
  /// Tells the other ranks that this one is there with its data.
  void launch(Started& started);
  /// This rank's share, if all have entered. Waits for nobody, unless some rank's data cannot be reached by all.
  void advance(Started& started);
  /// Moves on an operation before which none is pending; true once it is over. `may_wait` makes it so.
  bool step(Started& started, bool may_wait);

  // For the other collectives.
  void enter(const Call& call, const std::byte* data, const SymmetricBuffer* buffer);
  void pass_round(const Call& call) { rounds_.pass(call); }
  void retire(const Call& call) { slots_.retire(call.sequence); }
  /// Where every rank's data begin, by rank; empty unless all ranks can reach all of it. Equal on all ranks: they look
  /// at the same locations, and each has mapped the segment in which its own data lie. All must have entered.
  template <class BytesOf>
  void find_copies(std::vector<std::byte*>& copies, const Call& call, BytesOf&& bytes_of,
                   const SymmetricBuffer* buffer) {
    copies.clear();
    for (int rank = 0; rank < group_.world_size(); ++rank) {
      const Location location = slots_.location(call.sequence, rank);
      if (one_address_space_ && location.segment == kPointer) {
        copies.push_back(reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(location.offset)));
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
  void launch_tiny(Started& started);
  void launch_slot(Started& started);
  bool step_tiny(Started& started, bool may_wait);
  void resolve(Started& started);
  void run_small(Started& started);
  void work_slice(Started& started, int owner);
  void help_others(Started& started);
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
