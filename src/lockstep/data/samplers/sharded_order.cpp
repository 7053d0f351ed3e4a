#include "lockstep/detail/data/sharded_order.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/data/samplers/permutation.h"

namespace lockstep {

void check_replica(const char* sampler, std::int64_t num_replicas, std::int64_t rank) {
  if (num_replicas < 1) {
    throw Error(fmt::format("Invalid number of replicas {}, it should be at least 1", num_replicas), sampler,
                "give the world size as num_replicas");
  }
  if (rank < 0 || rank >= num_replicas) {
    throw Error(fmt::format("Invalid rank {}, rank should be in the interval [0, {}]", rank, num_replicas - 1), sampler,
                "give this process's rank, and the world size as num_replicas");
  }
}

void ShardedOrder::write(std::uint64_t seed, std::int64_t epoch, std::int64_t first, std::int64_t count,
                         std::int64_t* out) {
  if (!shuffle_) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = position(first + i);
    return;
  }
  shuffle(seed + static_cast<std::uint64_t>(epoch));
  std::copy_n(shuffled_.begin() + first, count, out);
}

void ShardedOrder::shuffle(std::uint64_t seed) {
  if (!shuffled_.empty() && shuffled_seed_ == seed) return;
  const at::Tensor permutation = random_permutation(dataset_size_, seed);
  const auto* order = permutation.data_ptr<std::int64_t>();
  shuffled_.resize(static_cast<std::size_t>(size_));
  for (std::int64_t i = 0; i < size_; ++i) shuffled_[i] = order[position(i)];
  shuffled_seed_ = seed;
}

}  // namespace lockstep
