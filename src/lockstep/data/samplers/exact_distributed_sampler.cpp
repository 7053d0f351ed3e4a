#include "lockstep/data/exact_distributed_sampler.h"

namespace lockstep {

ExactDistributedSampler::ExactDistributedSampler(std::int64_t dataset_size, ExactDistributedSamplerOptions options)
    : ExactDistributedSampler(dataset_size, options,
                              replica_of("ExactDistributedSampler", options.num_replicas, options.rank)) {}

ExactDistributedSampler::ExactDistributedSampler(std::int64_t dataset_size,
                                                 const ExactDistributedSamplerOptions& options, const Replica& replica)
    : Sampler("ExactDistributedSampler", {dataset_size, replica.count, replica.exact_share(dataset_size)},
              options.seed),
      order_(dataset_size, replica, size(), options.shuffle) {}

}  // namespace lockstep
