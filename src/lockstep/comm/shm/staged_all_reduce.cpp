#include "lockstep/comm/shm/staged_all_reduce.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace lockstep::shm {
namespace {

// One piece of the elements, cut into a part for each rank.
class Pieces {
 public:
  Pieces(const Group& group, const Elements& elements)
      : group_(group), elements_(elements), size_(element_bytes(elements.type)) {
    const auto ranks = static_cast<std::size_t>(group.world_size());
    const std::size_t line = kLineBytes / size_;
    const std::size_t room = group.layout().staging_bytes() / size_;  // of a piece, in a staging buffer
    part_ = std::max(line, room / ranks / line * line);
    // Even pieces: the last one is not a remainder that costs as many barriers as the others.
    const std::size_t pieces = (elements.count + part_ * ranks - 1) / (part_ * ranks);
    const std::size_t even = (elements.count + pieces * ranks - 1) / (pieces * ranks);
    part_ = std::min(part_, (even + line - 1) / line * line);
    count_ = (elements.count + part_ * ranks - 1) / (part_ * ranks);
  }
  std::size_t count() const { return count_; }

  struct Part {
    std::byte* data;     // in the rank's own elements
    std::size_t offset;  // in a staging buffer, bytes
    std::size_t count;
    std::size_t bytes;
  };
  Part part(std::size_t piece, int rank) const {
    const std::size_t in_piece = part_ * static_cast<std::size_t>(rank);
    const std::size_t begin =
        std::min(elements_.count, piece * part_ * static_cast<std::size_t>(group_.world_size()) + in_piece);
    const std::size_t count = std::min(part_, elements_.count - begin);
    return {elements_.data + begin * size_, in_piece * size_, count, count * size_};
  }
  std::byte* inbound(std::size_t piece, int rank) const {
    return group_.at(group_.layout().staging(rank, static_cast<int>(piece % 2)));
  }
  std::byte* outbound(std::size_t piece, int rank) const {
    return group_.at(group_.layout().staging(rank, 2 + static_cast<int>(piece % 2)));
  }

 private:
  const Group& group_;
  const Elements& elements_;
  std::size_t size_;
  std::size_t part_;
  std::size_t count_;
};

void copy_in(const Group& group, const Pieces& pieces, std::size_t piece) {
  for (int other = 0; other < group.world_size(); ++other) {
    if (other == group.rank()) continue;
    const Pieces::Part part = pieces.part(piece, other);
    std::memcpy(pieces.inbound(piece, group.rank()) + part.offset, part.data, part.bytes);
  }
}

void reduce_own_part(const Group& group, const Pieces& pieces, std::size_t piece, const Elements& elements,
                     Reduction reduction) {
  const Pieces::Part part = pieces.part(piece, group.rank());
  std::array<const std::byte*, kMaxRanks> sources;
  for (int rank = 0; rank < group.world_size(); ++rank) {
    sources[static_cast<std::size_t>(rank)] =
        rank == group.rank() ? part.data : pieces.inbound(piece, rank) + part.offset;
  }
  const std::array<std::byte*, 2> destinations = {part.data, pieces.outbound(piece, group.rank()) + part.offset};
  reduce(elements.type, reduction, sources.data(), group.world_size(), destinations.data(), 2, part.count);
}

void copy_out(const Group& group, const Pieces& pieces, std::size_t piece) {
  for (int other = 0; other < group.world_size(); ++other) {
    if (other == group.rank()) continue;
    const Pieces::Part part = pieces.part(piece, other);
    std::memcpy(part.data, pieces.outbound(piece, other) + part.offset, part.bytes);
  }
}

}  // namespace

void run_staged_all_reduce(Group& group, RoundProtocol<Group>& rounds, const Call& call, const Elements& elements,
                           Reduction reduction) {
  if (elements.count == 0) return;
  const Pieces pieces(group, elements);
  for (std::size_t turn = 0; turn < pieces.count() + 2; ++turn) {
    if (turn < pieces.count()) copy_in(group, pieces, turn);
    if (turn >= 1 && turn - 1 < pieces.count()) reduce_own_part(group, pieces, turn - 1, elements, reduction);
    if (turn >= 2) copy_out(group, pieces, turn - 2);
    if (turn + 1 < pieces.count() + 2) rounds.pass(call);
  }
}

}  // namespace lockstep::shm
