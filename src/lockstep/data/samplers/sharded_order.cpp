#include "lockstep/detail/data/sharded_order.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/group_place.h"
#include "lockstep/data/samplers/permutation.h"

namespace lockstep {
namespace {

GroupPlace place_in_group(const char* sampler, const char* missing) {
  if (const auto place = default_place()) return *place;
  throw Error(fmt::format("{} is not set, and there is no default process group to take it from", missing), sampler,
              "call init_process_group before the sampler is made; a program of one process sets num_replicas to 1; a "
              "thread that a rank of spawn_threads has started sets num_replicas and rank itself, from the rank's "
              "group");
}

}  // namespace

Replica replica_of(const char* sampler, std::optional<std::int64_t> num_replicas, std::optional<std::int64_t> rank) {
  const std::int64_t count = num_replicas ? *num_replicas : place_in_group(sampler, "num_replicas").world_size;
  if (count < 1) {
    throw Error(fmt::format("Invalid number of replicas {}, it should be at least 1", count), sampler,
                "give the world size as num_replicas");
  }
  const std::int64_t mine = rank ? *rank : (count == 1 ? 0 : place_in_group(sampler, "rank").rank);
  if (mine < 0 || mine >= count) {
    throw Error(fmt::format("Invalid rank {}, rank should be in the interval [0, {}]", mine, count - 1), sampler,
                "give this process's rank, and the world size as num_replicas");
  }
  return {count, mine};
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
