#pragma once

#include <functional>
#include <memory>

#include "lockstep/data/dataset.h"

namespace lockstep {

/// The samples of another dataset, changed by a function when they are read.
///
/// The function receives whole batches (a batch of one for `get`), so one call of each operation serves all samples. It
/// runs in the loader's worker threads, several at once, and must treat a sample the same whatever other samples are in
/// the batch.
class TransformDataset : public Dataset {
 public:
  using Transform = std::function<Batch(Batch)>;

  /// @throws Error  if either is null
  TransformDataset(std::shared_ptr<const Dataset> dataset, Transform transform);

  std::int64_t size() const override { return dataset_->size(); }

 private:
  Example do_get(std::int64_t index) const override;
  /// @throws Error  also if the function returns another number of samples
  Batch do_get_batch(at::IntArrayRef indices) const override;
  bool do_write_digests(at::IntArrayRef indices, std::uint64_t* digests) const override;

  std::shared_ptr<const Dataset> dataset_;
  Transform transform_;
};

}  // namespace lockstep
