#include "lockstep/data/exact_distributed_sampler.h"

namespace lockstep {
namespace {

std::int64_t share_of(std::int64_t dataset_size, const ExactDistributedSamplerOptions& options) {
  check_replica("ExactDistributedSampler", options.num_replicas, options.rank);
  return dataset_size / options.num_replicas + (options.rank < dataset_size % options.num_replicas ? 1 : 0);
}

}  // namespace

ExactDistributedSampler::ExactDistributedSampler(std::int64_t dataset_size, ExactDistributedSamplerOptions options)
    : Sampler("ExactDistributedSampler", {dataset_size, options.num_replicas, share_of(dataset_size, options)},
              options.seed),
      order_(dataset_size, options.num_replicas, options.rank, size(), options.shuffle) {}

}  // namespace lockstep
