// What `lockstep bench wrappers` and `lockstep bench batch-size` measure: the same work by different wrappers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// One way to train, on `replicas` x `threads` cores.
struct WrapperContender {
  std::string wrapper;  ///< one of known_wrappers()
  int replicas = 1;
  int threads = 1;  ///< of each replica
};

struct WrapperWork {
  std::string model;  ///< of the registry
  std::string data;   ///< see verification_data; empty: random batches
  std::int64_t sequence_length = 0;
  std::vector<std::int64_t> batches;  ///< samples of a step, over all replicas
  std::vector<int> steps;             ///< to measure, for each of `batches`
  double seconds = 0;                 ///< more than 0: fewer steps where they take longer, but three at least
};

struct WrapperResult {
  std::int64_t batch = 0;
  double median_ms = 0;  ///< of a step, rank 0's
  int steps = 0;
  /// Of all processes together, when most was resident: what is private, once what files they have in common, and all
  /// shared memory.
  double memory_mb = 0;
  std::int64_t parameters = 0;
};

const std::vector<std::string>& known_wrappers();

/// Whether every replica gets as many samples of a batch of this size as the others: ranks of DDP need it. DataParallel
/// takes any size, and leaves replicas idle where it must.
bool fits(const WrapperContender& contender, std::int64_t batch);

/// Starts the processes, which see so many cores and no more, and waits for what they measured.
/// @throws Error  if they fail
std::vector<WrapperResult> take_turn(const WrapperContender& contender, const WrapperWork& work);

/// @throws Error  if the model takes no texts and a length is given, or its data are no use for it; UsageError for a
/// model that does not exist. Before anything is measured, so that it costs no time
void check_work(const WrapperWork& work);

/// Of the source of `wrapper`'s training program: lines that are neither empty nor a comment, and how many of them are
/// not in that of "one-device". Zero where the sources of this program are not there.
struct SourceLines {
  int all = 0;
  int changed = 0;
};
SourceLines source_lines(const std::string& wrapper);

}  // namespace lockstep
