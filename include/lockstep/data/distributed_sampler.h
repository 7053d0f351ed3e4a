#pragma once

#include <optional>

#include "lockstep/data/sampler.h"
#include "lockstep/detail/data/sharded_order.h"

namespace lockstep {

/// The arguments of `torch.utils.data.DistributedSampler`. As there, `num_replicas` and `rank` are those of the default
/// group unless they are set: the group of init_process_group, or of `spawn` in its ranks.
struct DistributedSamplerOptions {
  std::optional<std::int64_t> num_replicas = {};  ///< another number than the world size divides the data otherwise
  std::optional<std::int64_t> rank = {};          ///< in [0, num_replicas); needs no group if there is one replica
  bool shuffle = true;
  std::uint64_t seed = 0;  ///< equal on every rank
  bool drop_last = false;  ///< leave out the tail that does not divide evenly, instead of repeating samples
};

/// The share of the dataset that one replica trains on: PyTorch's DistributedSampler, index by index.
///
/// Every replica gets an equal number of samples. If the dataset does not divide evenly, `drop_last` leaves out the
/// tail; otherwise the first samples of the epoch's order are repeated at its end, several times if there are more
/// replicas than samples. With 5 samples, 2 replicas and seed 0, epoch 0 is torch.randperm(5) = 4 0 1 3 2:
///
///     padded to a multiple of 2         4 0 1 3 2 4      (the first sample again)
///     rank 0 takes every second         4   1   2
///     rank 1 takes the others             0   3   4
///     with drop_last, cut instead       4 0 1 3          rank 0: 4 1, rank 1: 0 3
///
/// The order is the same for every epoch unless `set_epoch` is called before each: a second iteration over one shuffled
/// epoch logs a warning, and so does a `num_replicas` below the default group's size. For evaluation use
/// ExactDistributedSampler: repeated samples make metrics wrong. Reference: PyTorch, torch/utils/data/distributed.py.
class DistributedSampler : public Sampler {
 public:
  /// @throws Error  if the dataset is empty, the rank is outside [0, num_replicas), or one of the two is left to a
  /// default group and there is none
  explicit DistributedSampler(std::int64_t dataset_size, DistributedSamplerOptions options = {});

 private:
  DistributedSampler(std::int64_t dataset_size, const DistributedSamplerOptions& options, const Replica& replica);
  void do_indices(std::uint64_t seed, std::int64_t epoch, std::int64_t first, std::int64_t count,
                  std::int64_t* out) const override {
    order_.write(seed, epoch, first, count, out);
  }
  std::int64_t do_next_epoch(std::int64_t epoch) override;

  mutable ShardedOrder order_;
  bool shuffle_;
  bool warned_ = false;
};

}  // namespace lockstep
