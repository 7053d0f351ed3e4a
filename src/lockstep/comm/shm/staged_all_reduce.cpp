#include "lockstep/comm/shm/staged_all_reduce.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace lockstep::shm {

StagedAllReduce::StagedAllReduce(const Group& group, const Elements& elements, Reduction reduction)
    : group_(group), elements_(elements), reduction_(reduction), size_(element_bytes(elements.type)) {
  if (elements.count == 0) return;
  const auto ranks = static_cast<std::size_t>(group.world_size());
  const std::size_t line = kLineBytes / size_;
  const std::size_t room = group.layout().staging_bytes() / size_;  // for a piece, in a staging buffer
  part_ = std::max(line, room / ranks / line * line);
  // Pieces of even size: a small last piece would cost as many barriers as the others.
  const std::size_t pieces = (elements.count + part_ * ranks - 1) / (part_ * ranks);
  const std::size_t even = (elements.count + pieces * ranks - 1) / (pieces * ranks);
  part_ = std::min(part_, (even + line - 1) / line * line);
  pieces_ = (elements.count + part_ * ranks - 1) / (part_ * ranks);
}

bool StagedAllReduce::move_on(RoundProtocol<Group>& rounds) {
  if (pieces_ == 0) return true;
  for (;;) {
    if (in_round_) {
      if (!rounds.all_there(round_)) return false;
      in_round_ = false;
      ++turn_;
    }
    take_turn();
    if (turn_ == pieces_ + 1) return true;
    round_ = rounds.arrive();
    in_round_ = true;
  }
}

void StagedAllReduce::take_turn() {
  if (turn_ < pieces_) copy_in(turn_);
  if (turn_ >= 1 && turn_ - 1 < pieces_) reduce_own_part(turn_ - 1);
  if (turn_ >= 2) copy_out(turn_ - 2);
}

StagedAllReduce::Part StagedAllReduce::part(std::size_t piece, int rank) const {
  const std::size_t in_piece = part_ * static_cast<std::size_t>(rank);
  const std::size_t begin =
      std::min(elements_.count, piece * part_ * static_cast<std::size_t>(group_.world_size()) + in_piece);
  const std::size_t count = std::min(part_, elements_.count - begin);
  return {elements_.data + begin * size_, in_piece * size_, count, count * size_};
}

std::byte* StagedAllReduce::inbound(std::size_t piece, int rank) const {
  return group_.at(group_.layout().staging(rank, static_cast<int>(piece % 2)));
}

std::byte* StagedAllReduce::outbound(std::size_t piece, int rank) const {
  return group_.at(group_.layout().staging(rank, 2 + static_cast<int>(piece % 2)));
}

void StagedAllReduce::copy_in(std::size_t piece) {
  for (int other = 0; other < group_.world_size(); ++other) {
    if (other == group_.rank()) continue;
    const Part theirs = part(piece, other);
    std::memcpy(inbound(piece, group_.rank()) + theirs.offset, theirs.data, theirs.bytes);
  }
}

void StagedAllReduce::reduce_own_part(std::size_t piece) {
  const Part mine = part(piece, group_.rank());
  std::array<const std::byte*, kMaxRanks> sources;
  for (int rank = 0; rank < group_.world_size(); ++rank) {
    sources[static_cast<std::size_t>(rank)] = rank == group_.rank() ? mine.data : inbound(piece, rank) + mine.offset;
  }
  const std::array<std::byte*, 2> destinations = {mine.data, outbound(piece, group_.rank()) + mine.offset};
  reduce(elements_.type, reduction_, sources.data(), group_.world_size(), destinations.data(), 2, mine.count);
}

void StagedAllReduce::copy_out(std::size_t piece) {
  for (int other = 0; other < group_.world_size(); ++other) {
    if (other == group_.rank()) continue;
    const Part theirs = part(piece, other);
    std::memcpy(theirs.data, outbound(piece, other) + theirs.offset, theirs.bytes);
  }
}

}  // namespace lockstep::shm
