#pragma once

#include "lockstep/data/sampler.h"
#include "lockstep/detail/data/sharded_order.h"

namespace lockstep {

/// All samples, each once, for one process, in an order drawn from seed + epoch: the order of a DistributedSampler with
/// one replica. If no epoch was chosen for an iteration, it takes the next one, so every pass has its own order.
class RandomSampler : public Sampler {
 public:
  /// @throws Error  if the dataset is empty
  explicit RandomSampler(std::int64_t dataset_size, std::uint64_t seed = 0)
      : Sampler("RandomSampler", {dataset_size, 1, dataset_size}, seed),
        order_(dataset_size, Replica{}, dataset_size, true) {}

 private:
  void do_indices(std::uint64_t seed, std::int64_t epoch, std::int64_t first, std::int64_t count,
                  std::int64_t* out) const override {
    order_.write(seed, epoch, first, count, out);
  }
  std::int64_t do_next_epoch(std::int64_t epoch) override { return epoch + 1; }

  mutable ShardedOrder order_;
};

}  // namespace lockstep
