#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

/// @param sampler  the calling class, for the error
/// @throws Error  if `rank` is outside [0, num_replicas), or `num_replicas` is not positive
void check_replica(const char* sampler, std::int64_t num_replicas, std::int64_t rank);

/// The samples that one replica takes from a dataset: every `num_replicas`-th sample of the epoch's order, from the
/// `rank`-th on. The order is 0, 1, 2, …, or a permutation seeded with seed + epoch; past its end it starts over, which
/// is how PyTorch pads. Keeps the last epoch that it computed, so only one thread may use it at a time.
class ShardedOrder {
 public:
  /// @param size  samples of this replica
  ShardedOrder(std::int64_t dataset_size, std::int64_t num_replicas, std::int64_t rank, std::int64_t size, bool shuffle)
      : dataset_size_(dataset_size), num_replicas_(num_replicas), rank_(rank), size_(size), shuffle_(shuffle) {}

  /// Writes the dataset indices at [first, first + count) of this replica's `size`.
  void write(std::uint64_t seed, std::int64_t epoch, std::int64_t first, std::int64_t count, std::int64_t* out);

 private:
  // Sample i of this replica as a position in the epoch's order.
  std::int64_t position(std::int64_t i) const { return (rank_ + i * num_replicas_) % dataset_size_; }
  void shuffle(std::uint64_t seed);

  std::int64_t dataset_size_;
  std::int64_t num_replicas_;
  std::int64_t rank_;
  std::int64_t size_;
  bool shuffle_;
  std::vector<std::int64_t> shuffled_;  // this replica's samples for shuffled_seed_
  std::uint64_t shuffled_seed_ = 0;
};

}  // namespace lockstep
