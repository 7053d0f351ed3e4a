#pragma once

#include <memory>
#include <vector>

#include "lockstep/data/dataset.h"

namespace lockstep {

/// Several datasets one after the other.
class ConcatDataset : public Dataset {
 public:
  /// @param datasets  at least one, with the same fields
  /// @throws Error  if `datasets` is empty
  explicit ConcatDataset(std::vector<std::shared_ptr<const Dataset>> datasets);

  std::int64_t size() const override { return ends_.back(); }

 private:
  Example do_get(std::int64_t index) const override;
  Batch do_get_batch(at::IntArrayRef indices) const override;
  bool do_write_digests(at::IntArrayRef indices, std::uint64_t* digests) const override;
  std::size_t part_of(std::int64_t index) const;
  std::int64_t start_of(std::size_t part) const { return part == 0 ? 0 : ends_[part - 1]; }

  std::vector<std::shared_ptr<const Dataset>> datasets_;
  std::vector<std::int64_t> ends_;  // of each dataset, as an index into the whole
};

}  // namespace lockstep
