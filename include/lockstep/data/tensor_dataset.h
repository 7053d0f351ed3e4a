#pragma once

#include "lockstep/data/dataset.h"

namespace lockstep {

/// Samples in memory: sample i is row i of every tensor. A batch is one gather per tensor, without a tensor per sample.
/// The tensors are shared, not copied: do not change them while the dataset is in use.
class TensorDataset : public Dataset {
 public:
  /// @param fields  at least one; each [n, ...] with the same n
  /// @throws Error  if the tensors differ in n, or `fields` is empty
  explicit TensorDataset(Batch fields);

  std::int64_t size() const override { return size_; }
  const Batch& fields() const { return fields_; }

 private:
  Example do_get(std::int64_t index) const override;
  Batch do_get_batch(at::IntArrayRef indices) const override;
  bool do_write_digests(at::IntArrayRef indices, std::uint64_t* digests) const override;

  Batch fields_;
  std::int64_t size_;
};

}  // namespace lockstep
