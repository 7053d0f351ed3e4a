#include "lockstep/train/grouped_shard_sampler.h"

#include <utility>

namespace lockstep {
namespace {

LengthGroupedSamplerOptions of_one_replica(LengthGroupedSamplerOptions options) {
  options.num_replicas = 1;
  options.rank = 0;
  options.drop_last = false;
  return options;
}

}  // namespace

GroupedShardSampler::GroupedShardSampler(std::vector<std::int64_t> lengths, LengthGroupedSamplerOptions options)
    : GroupedShardSampler(std::move(lengths), options,
                          replica_of("GroupedShardSampler", options.num_replicas, options.rank)) {}

GroupedShardSampler::GroupedShardSampler(std::vector<std::int64_t> lengths, const LengthGroupedSamplerOptions& options,
                                         const Replica& replica)
    : Sampler("GroupedShardSampler",
              {static_cast<std::int64_t>(lengths.size()), replica.count,
               replica.exact_share(static_cast<std::int64_t>(lengths.size()))},
              options.seed),
      rank_(replica.rank),
      whole_(std::move(lengths), of_one_replica(options)) {}

void GroupedShardSampler::do_indices(std::uint64_t seed, std::int64_t epoch, std::int64_t first, std::int64_t count,
                                     std::int64_t* out) const {
  const SamplerState of{seed, epoch, 0, dataset_size(), 1};
  const std::vector<std::int64_t> order =
      whole_.indices(of, rank_ + first * num_replicas(), (count - 1) * num_replicas() + 1);
  for (std::int64_t i = 0; i < count; ++i) out[i] = order[static_cast<std::size_t>(i * num_replicas())];
}

}  // namespace lockstep
