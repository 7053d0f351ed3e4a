#include "lockstep/data/distributed_sampler.h"

#include <atomic>

#include "lockstep/base/group_place.h"
#include "lockstep/base/log.h"

namespace lockstep {
namespace {

// Tutorials give LOCAL_WORLD_SIZE as num_replicas, which is right only on one host. A rank that is below it sees no
// error, and reads what another rank reads.
void warn_of_few_replicas(const DistributedSamplerOptions& options) {
  const auto place = default_place();
  if (!options.num_replicas || !place || *options.num_replicas >= place->world_size || !options.shuffle) return;
  static std::atomic<bool> was_said{false};
  if (was_said.exchange(true)) return;
  log_warning(
      "DistributedSampler: num_replicas is {} and the default group has {} ranks, so several ranks train on the same "
      "samples, unless groups of your own share them out; leave num_replicas out, or give the world size "
      "(LOCAL_WORLD_SIZE counts the ranks of one host)",
      *options.num_replicas, place->world_size);
}

}  // namespace

DistributedSampler::DistributedSampler(std::int64_t dataset_size, DistributedSamplerOptions options)
    : DistributedSampler(dataset_size, options, replica_of("DistributedSampler", options.num_replicas, options.rank)) {}

DistributedSampler::DistributedSampler(std::int64_t dataset_size, const DistributedSamplerOptions& options,
                                       const Replica& replica)
    : Sampler("DistributedSampler",
              {dataset_size, replica.count,
               options.drop_last ? replica.share_without_tail(dataset_size) : replica.padded_share(dataset_size)},
              options.seed),
      order_(dataset_size, replica, size(), options.shuffle),
      shuffle_(options.shuffle) {
  warn_of_few_replicas(options);
}

std::int64_t DistributedSampler::do_next_epoch(std::int64_t epoch) {
  if (shuffle_ && !warned_) {
    log_warning(
        "DistributedSampler: a second pass over epoch {} takes the samples in the same order; call "
        "set_epoch(n) before each epoch to shuffle it again",
        epoch);
    warned_ = true;
  }
  return epoch;
}

}  // namespace lockstep
