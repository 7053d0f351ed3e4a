#include "lockstep/train/grouped_shard_sampler.h"

#include "lockstep/detail/data/sharded_order.h"

namespace lockstep {
namespace {

std::int64_t share_of_order(std::int64_t samples, const LengthGroupedSamplerOptions& options) {
  check_replica("GroupedShardSampler", options.num_replicas, options.rank);
  return samples / options.num_replicas + (options.rank < samples % options.num_replicas ? 1 : 0);
}

LengthGroupedSamplerOptions of_one_replica(LengthGroupedSamplerOptions options) {
  options.num_replicas = 1;
  options.rank = 0;
  options.drop_last = false;
  return options;
}

}  // namespace

GroupedShardSampler::GroupedShardSampler(std::vector<std::int64_t> lengths, LengthGroupedSamplerOptions options)
    : Sampler("GroupedShardSampler",
              {static_cast<std::int64_t>(lengths.size()), options.num_replicas,
               share_of_order(static_cast<std::int64_t>(lengths.size()), options)},
              options.seed),
      rank_(options.rank),
      whole_(std::move(lengths), of_one_replica(options)) {}

void GroupedShardSampler::do_indices(std::uint64_t seed, std::int64_t epoch, std::int64_t first, std::int64_t count,
                                     std::int64_t* out) const {
  const SamplerState of{seed, epoch, 0, dataset_size(), 1};
  const std::vector<std::int64_t> order =
      whole_.indices(of, rank_ + first * num_replicas(), (count - 1) * num_replicas() + 1);
  for (std::int64_t i = 0; i < count; ++i) out[i] = order[static_cast<std::size_t>(i * num_replicas())];
}

}  // namespace lockstep
