#pragma once

#include <c10/core/Device.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace lockstep {

/// Tells the Accelerator the position of the batch that a prepared loader returned last.
struct LoaderPosition {
  std::int64_t samples_before = 0;  ///< this rank's samples before the batch; -1: samples are not dealt one by one
  std::int64_t samples = -1;        ///< of the batch; -1: unknown
  std::int64_t batches_left = 0;    ///< batches after it
  std::int64_t dataset_size = 0;
  bool repeats_samples = false;  ///< the sampler fills the ranks' last batches with earlier samples
  std::int64_t unrepeated = -1;  ///< samples at the begin of the batch that are not repeated; -1: unknown
  bool is_kept = true;           ///< save_state saves the position
};

/// The loaders of an Accelerator that are being read.
struct ActiveLoaders {
  /// This rank's samples of a pass over a loader.
  struct Pass {
    std::int64_t samples = 0;   ///< 0: unknown
    std::int64_t repeated = 0;  ///< those of them that fill the ranks' last batches
  };

  std::vector<const LoaderPosition*> reading;  ///< the last one returned a batch most recently
  Pass ended;                                  ///< the pass that ended last
  bool has_warned = false;                     ///< that samples of it are repeated in what was gathered

  const LoaderPosition* innermost() const { return reading.empty() ? nullptr : reading.back(); }
  /// The loader at `position` has returned a batch.
  void returned(const LoaderPosition& position) {
    left(position);
    reading.push_back(&position);
  }
  /// The loader is not read any more. @return  whether it was
  bool left(const LoaderPosition& position) {
    const auto first = std::remove(reading.begin(), reading.end(), &position);
    const bool was_read = first != reading.end();
    reading.erase(first, reading.end());
    return was_read;
  }
};

/// Which part of a loader's batches a rank gets, and where.
struct LoaderShare {
  int rank = 0;
  int world_size = 1;
  /// true: every rank gets the same number of batches, by repeating samples at the end of an epoch. false: no sample is
  /// repeated, and some ranks may have one batch less (see Accelerator::join_uneven_inputs).
  bool even_batches = true;
  bool split_batches = false;     ///< the loader's batch size is the total of all ranks
  c10::Device device{c10::kCPU};  ///< device of the returned batches; batches on the CPU are moved there
};

}  // namespace lockstep
