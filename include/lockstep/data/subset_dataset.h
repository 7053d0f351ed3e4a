#pragma once

#include <memory>
#include <vector>

#include "lockstep/data/dataset.h"

namespace lockstep {

/// Some samples of another dataset: sample i is that dataset's sample `indices[i]`.
class SubsetDataset : public Dataset {
 public:
  /// @throws Error  if an index is outside `dataset`
  SubsetDataset(std::shared_ptr<const Dataset> dataset, std::vector<std::int64_t> indices);

  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }

 private:
  Example do_get(std::int64_t index) const override;
  Batch do_get_batch(at::IntArrayRef indices) const override;
  bool do_write_digests(at::IntArrayRef indices, std::uint64_t* digests) const override;

  std::shared_ptr<const Dataset> dataset_;
  std::vector<std::int64_t> indices_;
};

/// Cuts `dataset` at random into parts of `sizes` samples, with the samples and order of
/// `torch.utils.data.random_split` with a generator seeded with `seed`.
/// @throws Error  if a size is negative, or the sizes do not add up to the dataset's size
std::vector<std::shared_ptr<const Dataset>> random_split(const std::shared_ptr<const Dataset>& dataset,
                                                         const std::vector<std::int64_t>& sizes, std::uint64_t seed);

}  // namespace lockstep
