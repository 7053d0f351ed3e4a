#pragma once

#include <algorithm>
#include <cstddef>

namespace lockstep {

/// Up to this much to all other ranks together, packets are quicker than messages that wait for their receiver.
constexpr std::size_t kMostPacketBytes = 256 << 10;

/// Messages of a large operation between so many ranks: while one is worked on the next is under way. Smaller ones cost
/// wake-ups, larger ones fall out of the cache between arrival and reduction.
inline std::size_t segment_bytes(int ranks) {
  constexpr std::size_t kOfAll = 4 << 20, kSmallest = 256 << 10, kLargest = 2 << 20;
  return std::clamp(kOfAll / static_cast<std::size_t>(ranks - 1) / 64 * 64, kSmallest, kLargest);
}

}  // namespace lockstep
