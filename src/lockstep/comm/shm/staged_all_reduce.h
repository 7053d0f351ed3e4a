#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/comm/reduce/element_range.h"
#include "lockstep/comm/reduce/reduce.h"
#include "lockstep/comm/shm/group.h"
#include "lockstep/comm/shm/protocols/round_protocol.h"

namespace lockstep::shm {

/// All-reduce of elements that other ranks cannot access, through the staging buffers: a rank copies in what the others
/// reduce, reduces its share of each piece, and copies out what the others reduced. Three pieces are in progress at
/// once, and one round separates their steps. Buffers stay in the caches, so the memory traffic is about that of the
/// algorithm in place.
///
/// All operations of a group share the rounds and the buffers: only one may be in progress at a time.
class StagedAllReduce {
 public:
  StagedAllReduce(const Group& group, const Elements& elements, Reduction reduction);

  /// Does what can be done until this rank must wait for the others; true once it is over.
  bool move_on(RoundProtocol<Group>& rounds);
  /// After `move_on` returned false: the round for which it waits.
  std::uint64_t round() const { return round_; }

 private:
  // One piece of the elements, cut into a part for each rank.
  struct Part {
    std::byte* data;     // in the rank's own elements
    std::size_t offset;  // in a staging buffer, bytes
    std::size_t count;
    std::size_t bytes;
  };
  Part part(std::size_t piece, int rank) const;
  std::byte* inbound(std::size_t piece, int rank) const;
  std::byte* outbound(std::size_t piece, int rank) const;
  void take_turn();
  void copy_in(std::size_t piece);
  void reduce_own_part(std::size_t piece);
  void copy_out(std::size_t piece);

  const Group& group_;
  const Elements elements_;
  const Reduction reduction_;
  const std::size_t size_;  // of an element
  std::size_t part_ = 0;    // elements of a part
  std::size_t pieces_ = 0;
  std::size_t turn_ = 0;
  bool in_round_ = false;
  std::uint64_t round_ = 0;
};

}  // namespace lockstep::shm
