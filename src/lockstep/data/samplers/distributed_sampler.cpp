#include "lockstep/data/distributed_sampler.h"

#include "lockstep/base/log.h"

namespace lockstep {
namespace {

std::int64_t share_of(std::int64_t dataset_size, const DistributedSamplerOptions& options) {
  check_replica("DistributedSampler", options.num_replicas, options.rank);
  const std::int64_t whole = dataset_size / options.num_replicas;
  return options.drop_last || dataset_size % options.num_replicas == 0 ? whole : whole + 1;
}

}  // namespace

DistributedSampler::DistributedSampler(std::int64_t dataset_size, DistributedSamplerOptions options)
    : Sampler("DistributedSampler", {dataset_size, options.num_replicas, share_of(dataset_size, options)},
              options.seed),
      order_(dataset_size, options.num_replicas, options.rank, size(), options.shuffle),
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
