#pragma once

#include <optional>
#include <vector>

#include "lockstep/data/sampler.h"
#include "lockstep/detail/data/sharded_order.h"

namespace lockstep {

struct LengthGroupedSamplerOptions {
  std::int64_t batch_size = 1;  ///< of one rank, times the accumulated micro-batches: samples of similar length
  std::optional<std::int64_t> num_replicas = {};  ///< default: the default group's, as in DistributedSamplerOptions
  std::optional<std::int64_t> rank = {};          ///< in [0, num_replicas); default as above
  std::uint64_t seed = 0;                         ///< equal on every rank
  bool drop_last = false;  ///< leave out the tail that does not divide evenly, instead of repeating samples
};

/// Random order in which samples of similar length are neighbours, so that batches need little padding.
///
/// The epoch's permutation (torch.randperm after manual_seed(seed + epoch)) is cut into parts of up to 50 batches, and
/// each part is sorted from long to short. The longest sample of all comes first, so that a lack of memory shows at
/// once. Rank r takes every num_replicas-th sample from the r-th on, padded or cut as in DistributedSampler. For an
/// equal permutation the order equals, index by index, the one that Hugging Face's LengthGroupedSampler and
/// DistributedLengthGroupedSampler (transformers/trainer_pt_utils.py) give.
class LengthGroupedSampler : public Sampler {
 public:
  /// @param lengths  of all samples, e.g. TokenizedDataset::lengths()
  /// @throws Error  if there are no samples or the batch size is not positive, and as DistributedSampler
  explicit LengthGroupedSampler(std::vector<std::int64_t> lengths, LengthGroupedSamplerOptions options = {});

 private:
  LengthGroupedSampler(std::vector<std::int64_t> lengths, const LengthGroupedSamplerOptions& options,
                       const Replica& replica);
  void do_indices(std::uint64_t seed, std::int64_t epoch, std::int64_t first, std::int64_t count,
                  std::int64_t* out) const override;
  std::int64_t do_next_epoch(std::int64_t epoch) override;
  void group(std::uint64_t seed) const;

  std::vector<std::int64_t> lengths_;
  std::int64_t batch_size_;
  std::int64_t rank_;
  mutable std::vector<std::int64_t> grouped_;  // this rank's samples for grouped_seed_
  mutable std::uint64_t grouped_seed_ = 0;
  bool warned_ = false;
};

}  // namespace lockstep
