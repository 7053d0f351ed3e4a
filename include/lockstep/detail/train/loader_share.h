#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <vector>

namespace lockstep {

/// Tells the Accelerator the position of the batch that a prepared loader returned last.
struct LoaderPosition {
  std::int64_t samples_before = 0;  ///< this rank's samples before the batch; -1: samples are not dealt one by one
  std::int64_t batches_left = 0;    ///< batches after it
  std::int64_t dataset_size = 0;
  bool repeats_samples = false;  ///< the sampler fills the ranks' last batches with earlier samples
  std::int64_t unrepeated = -1;  ///< samples at the begin of the batch that are not repeated; -1: unknown
  bool is_kept = true;           ///< save_state saves the position
};

/// The loaders that are being read; the last one returned a batch most recently.
using ActiveLoaders = std::vector<const LoaderPosition*>;

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
