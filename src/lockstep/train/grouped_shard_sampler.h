#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/data/length_grouped_sampler.h"
#include "lockstep/data/sampler.h"

namespace lockstep {

/// One rank's share of a LengthGroupedSampler's order, with every sample in exactly one share: rank r takes positions
/// r, r + num_replicas, ... A LengthGroupedSampler with several replicas would repeat samples at the end.
class GroupedShardSampler : public Sampler {
 public:
  /// @param options  as LengthGroupedSampler; `batch_size` is over all ranks, `drop_last` is ignored
  /// @throws Error  as LengthGroupedSampler
  GroupedShardSampler(std::vector<std::int64_t> lengths, LengthGroupedSamplerOptions options);

 private:
  GroupedShardSampler(std::vector<std::int64_t> lengths, const LengthGroupedSamplerOptions& options,
                      const Replica& replica);
  void do_indices(std::uint64_t seed, std::int64_t epoch, std::int64_t first, std::int64_t count,
                  std::int64_t* out) const override;

  std::int64_t rank_;
  LengthGroupedSampler whole_;
};

}  // namespace lockstep
