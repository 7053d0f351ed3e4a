#pragma once

#include <memory>
#include <vector>

#include "lockstep/data/dataset.h"

namespace lockstep {

/// Some samples of another dataset: sample i is sample `indices[i]` there.
class SubsetDataset : public Dataset {
 public:
  /// @throws Error  if an index is not one of `dataset`
  SubsetDataset(std::shared_ptr<const Dataset> dataset, std::vector<std::int64_t> indices);

  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }

 private:
  Example do_get(std::int64_t index) const override;
  Batch do_get_batch(at::IntArrayRef indices) const override;

  std::shared_ptr<const Dataset> dataset_;
  std::vector<std::int64_t> indices_;
};

/// Cuts `dataset` at random into parts of `sizes` samples, as `torch.utils.data.random_split` with a generator that was
/// seeded with `seed` does: the same samples in the same order.
/// @throws Error  if the sizes are negative or do not add up to the dataset's
std::vector<std::shared_ptr<const Dataset>> random_split(const std::shared_ptr<const Dataset>& dataset,
                                                         const std::vector<std::int64_t>& sizes, std::uint64_t seed);

}  // namespace lockstep
