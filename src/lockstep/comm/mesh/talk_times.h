#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace lockstep {

/// Operations that last longer than this are reported to the store, and the others' reports are read.
constexpr std::chrono::milliseconds kSlow{150};

/// Time between two reports of a rank, and between two reads of the others' reports. It grows with the age of the
/// operation and with the number of ranks, because one thread serves the store. With the few requests that each rank
/// then makes, all ranks together make some hundred per second, whether they are 40 or 4000.
inline std::chrono::milliseconds talk_interval(std::chrono::milliseconds age, int ranks) {
  using std::chrono::milliseconds;
  return std::max({milliseconds(200), milliseconds(5 * ranks), std::min(milliseconds(2000), age / 8)});
}

/// Time between two requests for the list of lost ranks, if no connection shows losses.
inline std::chrono::milliseconds loss_interval(int ranks) {
  return std::max(std::chrono::milliseconds(50), std::chrono::milliseconds(2 * ranks));
}

/// Time between two such requests while a rank finds out what broke its connections: which takes a second at most,
/// once.
inline std::chrono::milliseconds cause_interval(int ranks) {
  return std::max(std::chrono::milliseconds(10), std::chrono::milliseconds(ranks / 8));
}

/// All ranks' states are read in one of this many rounds; the other rounds read only the states of late ranks. If each
/// rank reads each rank's state, the cost grows with the square of their number.
inline std::uint64_t talks_between_hearing_all(int ranks) { return static_cast<std::uint64_t>(ranks / 64) + 1; }

}  // namespace lockstep
