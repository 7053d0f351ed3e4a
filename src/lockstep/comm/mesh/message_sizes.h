#pragma once

#include <algorithm>
#include <cstddef>

namespace lockstep {

/// Up to this many bytes to all other ranks together, packets are faster than messages that wait for their receiver.
constexpr std::size_t kMostPacketBytes = 256 << 10;

/// Size of a large operation's messages between this many ranks: while one is processed, the next is in transit.
/// Smaller ones cost wake-ups; larger ones leave the cache between arrival and reduction.
inline std::size_t segment_bytes(int ranks) {
  constexpr std::size_t kOfAll = 4 << 20, kSmallest = 256 << 10, kLargest = 2 << 20;
  return std::clamp(kOfAll / static_cast<std::size_t>(ranks - 1) / 64 * 64, kSmallest, kLargest);
}

}  // namespace lockstep
