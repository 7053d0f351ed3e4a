// The measurements of `lockstep bench wrappers` and `lockstep bench batch-size`: equal work by different wrappers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// One way to train, on `replicas` x `threads` cores.
struct WrapperContender {
  std::string wrapper;  ///< one of known_wrappers()
  int replicas = 1;
  int threads = 1;  ///< threads of each replica
};

struct WrapperWork {
  std::string model;  ///< name in the registry
  std::string data;   ///< see verification_data; empty: random batches
  std::int64_t sequence_length = 0;
  std::vector<std::int64_t> batches;  ///< samples in a step, over all replicas
  std::vector<int> steps;             ///< steps to measure, for each of `batches`
  double seconds = 0;                 ///< above 0: a time limit that reduces the steps, to three at least
};

struct WrapperResult {
  std::int64_t batch = 0;
  double median_ms = 0;  ///< of a step, on rank 0
  int steps = 0;
  /// The largest resident memory of all processes together: private memory, files once, and all shared memory.
  double memory_mib = 0;
  std::int64_t parameters = 0;
};

const std::vector<std::string>& known_wrappers();

/// Whether all replicas get equal numbers of samples from a batch of this size, which the ranks of DDP need.
/// DataParallel accepts any size, and leaves replicas idle if it must.
bool fits(const WrapperContender& contender, std::int64_t batch);

/// Starts the processes, which see only as many cores as they need, and waits for their measurements.
/// @throws Error  if they fail
std::vector<WrapperResult> take_turn(const WrapperContender& contender, const WrapperWork& work);

/// Checks the work before anything is measured. @throws Error  if the model takes no texts and a length is given, or if
/// the data do not fit the model; UsageError if the model does not exist
void check_work(const WrapperWork& work);

/// The source of `wrapper`'s training program: the number of lines that are neither empty nor a comment, and how many
/// of these "one-device" does not have. Zero if the sources are not available.
struct SourceLines {
  int all = 0;
  int changed = 0;
};
SourceLines source_lines(const std::string& wrapper);

}  // namespace lockstep
