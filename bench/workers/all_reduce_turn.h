#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace lockstep::bench {

/// One contender of `lockstep bench all-reduce`, in one rank.
struct AllReduceRank {
  int rank = 0;
  int world_size = 1;
  float* region = nullptr;  ///< memory that the all-reduces work in
  std::size_t region_bytes = 0;
  /// Sums `count` floats at region + `offset` over all ranks, in place. Empty for the bound, which scales them.
  std::function<void(std::size_t offset, std::size_t count)> all_reduce;
  /// Called before `all_reduce` of the same offset, untimed: brings what describes the data, but not the data, near.
  std::function<void(std::size_t offset)> touch;
  /// Returns once all ranks have called it: a turn's operations begin together.
  std::function<void()> synchronise;
  /// Called before each turn, untimed, with what it will work on.
  std::function<void(std::size_t count, std::size_t stride, std::size_t positions)> prepare;
};

/// How much memory a contender needs, so that each turn finds its buffers cold.
std::size_t region_bytes(std::size_t largest_bytes);

/// Takes turns until the other side ends: reads lines "bytes" from the named pipe FOLDER/in.RANK, and answers each on
/// FOLDER/out.RANK with "median_us", or with a line that starts with "error" where a sum was wrong.
///
/// A turn works on many buffers in turn, each filled by its rank and then driven out of the core's caches: an
/// all-reduce of memory that is still there from the last one says nothing.
void take_turns(const AllReduceRank& rank, const std::string& folder);

}  // namespace lockstep::bench
