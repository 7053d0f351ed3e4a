#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep {

/// One of the replicas that share a dataset.
struct Replica {
  std::int64_t count = 1;  ///< of all replicas
  std::int64_t rank = 0;   ///< in [0, count)

  std::int64_t share_without_tail(std::int64_t samples) const { return samples / count; }
  /// Equal shares, for which samples are repeated.
  std::int64_t padded_share(std::int64_t samples) const { return samples / count + (samples % count == 0 ? 0 : 1); }
  /// Each sample in one share: lower ranks may have one more.
  std::int64_t exact_share(std::int64_t samples) const { return samples / count + (rank < samples % count ? 1 : 0); }
};

/// What a sampler's options name; what they leave out is taken from the caller's default group. One replica has rank 0,
/// which needs no group.
/// @param sampler  the calling class, for the error
/// @throws Error  if `rank` is outside [0, num_replicas), `num_replicas` is not positive, or one is left out and there
/// is no group
Replica replica_of(const char* sampler, std::optional<std::int64_t> num_replicas, std::optional<std::int64_t> rank);

/// The samples that one replica takes from a dataset: every `num_replicas`-th sample of the epoch's order, from the
/// `rank`-th on. The order is 0, 1, 2, …, or a permutation seeded with seed + epoch; past its end it starts over, which
/// is how PyTorch pads. Keeps the last epoch that it computed, so only one thread may use it at a time.
class ShardedOrder {
 public:
  /// @param size  samples of this replica
  ShardedOrder(std::int64_t dataset_size, const Replica& replica, std::int64_t size, bool shuffle)
      : dataset_size_(dataset_size), replica_(replica), size_(size), shuffle_(shuffle) {}

  /// Writes the dataset indices at [first, first + count) of this replica's `size`.
  void write(std::uint64_t seed, std::int64_t epoch, std::int64_t first, std::int64_t count, std::int64_t* out);

 private:
  // Sample i of this replica as a position in the epoch's order.
  std::int64_t position(std::int64_t i) const { return (replica_.rank + i * replica_.count) % dataset_size_; }
  void shuffle(std::uint64_t seed);

  std::int64_t dataset_size_;
  Replica replica_;
  std::int64_t size_;
  bool shuffle_;
  std::vector<std::int64_t> shuffled_;  // this replica's samples for shuffled_seed_
  std::uint64_t shuffled_seed_ = 0;
};

}  // namespace lockstep
