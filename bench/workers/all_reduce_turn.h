#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace lockstep::bench {

/// One rank of a contender of `lockstep bench all-reduce`.
struct AllReduceRank {
  int rank = 0;
  int world_size = 1;
  float* region = nullptr;  ///< memory that the all-reduces work in
  std::size_t region_bytes = 0;
  /// Sums `count` floats at region + `offset` over all ranks, in place. Empty for the bound,
  /// which takes the fastest of `plain_loops` instead.
  std::function<void(std::size_t offset, std::size_t count)> all_reduce;
  /// Called before `all_reduce` with the same offset, untimed: loads the data's description, not the data, into the
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
