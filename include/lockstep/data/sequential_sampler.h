#pragma once

#include "lockstep/data/sampler.h"
#include "lockstep/detail/data/sharded_order.h"

namespace lockstep {

/// All samples in the dataset's order, for one process.
class SequentialSampler : public Sampler {
 public:
  /// @throws Error  if the dataset is empty
  explicit SequentialSampler(std::int64_t dataset_size)
      : Sampler("SequentialSampler", {dataset_size, 1, dataset_size}, 0),
        order_(dataset_size, Replica{}, dataset_size, false) {}

 private:
  void do_indices(std::uint64_t seed, std::int64_t epoch, std::int64_t first, std::int64_t count,
                  std::int64_t* out) const override {
    order_.write(seed, epoch, first, count, out);
  }

  mutable ShardedOrder order_;
};

}  // namespace lockstep
