#include "lockstep/data/distributed_sampler.h"

#include "lockstep/base/log.h"

namespace lockstep {

DistributedSampler::DistributedSampler(std::int64_t dataset_size, DistributedSamplerOptions options)
    : DistributedSampler(dataset_size, options, replica_of("DistributedSampler", options.num_replicas, options.rank)) {}

DistributedSampler::DistributedSampler(std::int64_t dataset_size, const DistributedSamplerOptions& options,
                                       const Replica& replica)
    : Sampler("DistributedSampler",
              {dataset_size, replica.count,
               options.drop_last ? replica.share_without_tail(dataset_size) : replica.padded_share(dataset_size)},
              options.seed),
      order_(dataset_size, replica, size(), options.shuffle),
      shuffle_(options.shuffle) {}

std::int64_t DistributedSampler::do_next_epoch(std::int64_t epoch) {
  if (shuffle_ && !warned_) {
    log_warning(
        "DistributedSampler: a second pass over epoch {} takes the samples in the same order; call "
        "set_epoch(n) before each epoch to shuffle anew",
        epoch);
    warned_ = true;
  }
  return epoch;
}

}  // namespace lockstep
