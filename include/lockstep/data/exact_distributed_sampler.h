#pragma once

#include "lockstep/data/sampler.h"
#include "lockstep/detail/data/sharded_order.h"

namespace lockstep {

struct ExactDistributedSamplerOptions {
  std::int64_t num_replicas = 1;
  std::int64_t rank = 0;  ///< in [0, num_replicas)
  bool shuffle = false;
  std::uint64_t seed = 0;  ///< equal on every rank
};

/// The share of the dataset that one replica evaluates. Every sample is in exactly one share and none is repeated, so
/// sums over all replicas equal those of one process.
///
/// Shares differ by at most one sample; lower ranks have more, and if there are more replicas than samples, some shares
/// are empty. Rank r takes samples r, r + num_replicas, r + 2 num_replicas, …; with 5 samples and 2 replicas, rank 0
/// takes 0 2 4 and rank 1 takes 1 3. Collectives in a loop over such a loader must allow for ranks that end a batch
/// earlier.
class ExactDistributedSampler : public Sampler {
 public:
  /// @throws Error  if the dataset is empty, or the rank is outside [0, num_replicas)
  explicit ExactDistributedSampler(std::int64_t dataset_size, ExactDistributedSamplerOptions options = {});

 private:
  void do_indices(std::uint64_t seed, std::int64_t epoch, std::int64_t first, std::int64_t count,
                  std::int64_t* out) const override {
    order_.write(seed, epoch, first, count, out);
  }

  mutable ShardedOrder order_;
};

}  // namespace lockstep
