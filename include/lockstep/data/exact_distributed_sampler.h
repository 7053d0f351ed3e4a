#pragma once

#include <optional>

#include "lockstep/data/sampler.h"
#include "lockstep/detail/data/sharded_order.h"

namespace lockstep {

struct ExactDistributedSamplerOptions {
  std::optional<std::int64_t> num_replicas = {};  ///< default: the default group's, as in DistributedSamplerOptions
  std::optional<std::int64_t> rank = {};          ///< in [0, num_replicas); default as above
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
  /// @throws Error  as DistributedSampler
  explicit ExactDistributedSampler(std::int64_t dataset_size, ExactDistributedSamplerOptions options = {});

 private:
  ExactDistributedSampler(std::int64_t dataset_size, const ExactDistributedSamplerOptions& options,
                          const Replica& replica);
  void do_indices(std::uint64_t seed, std::int64_t epoch, std::int64_t first, std::int64_t count,
                  std::int64_t* out) const override {
    order_.write(seed, epoch, first, count, out);
  }

  mutable ShardedOrder order_;
};

}  // namespace lockstep
