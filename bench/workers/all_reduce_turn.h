#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::bench {

/// A way to do what a turn measures.
struct AllReduceWay {
  /// Works on `count` floats at the region's `offset`. All ranks call it with the same values.
  std::function<void(std::size_t offset, std::size_t count)> run;
  const float* sums = nullptr;        ///< where `run` writes: as large as the region, and may be it
  std::size_t most_bytes = SIZE_MAX;  ///< larger tensors are not tried in this way
};

/// One rank of a contender of `lockstep bench all-reduce`.
struct AllReduceRank {
  int rank = 0;
  int world_size = 1;
  float* region = nullptr;  ///< memory that the all-reduces work in
  std::size_t region_bytes = 0;
  std::vector<AllReduceWay> ways;  ///< the fastest of them counts
  bool doubles = false;            ///< right is twice the rank's own values, as the bound has it, not the ranks' sum
  /// Called before a way runs, with the same offset, untimed: loads the data's description, not the data, into the
  /// cache.
  std::function<void(std::size_t offset)> touch;
  /// Returns after all ranks have called it, so that a turn's operations begin together.
  std::function<void()> synchronise;
  /// Called before each turn, untimed, with the turn's sizes.
  std::function<void(std::size_t count, std::size_t stride, std::size_t positions)> prepare;
};

/// The memory that a contender needs so that each turn finds its buffers cold.
std::size_t region_bytes(std::size_t largest_bytes);

/// Takes turns until the other side ends: reads lines "bytes" from the named pipe FOLDER/in.RANK, and answers each on
/// FOLDER/out.RANK with "median_us", or with a line that starts with "error" if a sum was wrong.
///
/// A turn works on many buffers, one after the other. Each buffer was filled by its rank and then evicted from the
/// core's caches: an all-reduce of memory that is still cached from the previous one would measure nothing.
void take_turns(const AllReduceRank& rank, const std::string& folder);

}  // namespace lockstep::bench
