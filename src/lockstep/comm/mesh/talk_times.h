#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace lockstep {

/// What lasts longer is told to the store, and asked of it.
constexpr std::chrono::milliseconds kSlow{150};

/// Between two times that a rank tells what it does, and asks what the others do: longer the longer it lasts, and the
/// more ranks there are, since one thread serves the store. With the few requests that each makes then, all ranks
/// together make some hundred in a second, whether they are 40 or 4000.
inline std::chrono::milliseconds talk_interval(std::chrono::milliseconds age, int ranks) {
  using std::chrono::milliseconds;
  return std::max({milliseconds(200), milliseconds(5 * ranks), std::min(milliseconds(2000), age / 8)});
}

/// Between two times that a rank asks the store who is lost, where no connection tells.
inline std::chrono::milliseconds loss_interval(int ranks) {
  return std::max(std::chrono::milliseconds(50), std::chrono::milliseconds(2 * ranks));
}

/// The same while it finds out what broke its connections: for half a second or one, once.
inline std::chrono::milliseconds cause_interval(int ranks) {
  return std::max(std::chrono::milliseconds(10), std::chrono::milliseconds(ranks / 8));
}

/// Every so many talks all ranks' states are read, the others' times only those of ranks that have not come. Each rank
/// reads each rank's: that is the square of their number.
inline std::uint64_t talks_between_hearing_all(int ranks) { return static_cast<std::uint64_t>(ranks / 64) + 1; }

}  // namespace lockstep
