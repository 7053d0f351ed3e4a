#include "lockstep/data/concat_dataset.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

// Puts `batch` at `rows` of `whole`, which is made for `size` samples by the first call.
void copy_rows(Batch& whole, const Batch& batch, const std::vector<std::int64_t>& rows, std::size_t size) {
  const at::Tensor at = at::tensor(rows);
  const bool first = whole.empty();
  for (const auto& [name, tensor] : batch) {
    at::Tensor& out = whole[name];
    if (first) {
      std::vector<std::int64_t> shape = tensor.sizes().vec();
      shape[0] = static_cast<std::int64_t>(size);
      out = at::empty(shape, tensor.options());
    }
    if (!out.defined() || out.sizes().slice(1) != tensor.sizes().slice(1) || out.dtype() != tensor.dtype() ||
        whole.size() != batch.size()) {
      throw Error("the samples of two datasets differ in field \"" + name + "\": its name, shape or dtype",
                  "ConcatDataset", "put together datasets with the same fields");
    }
    out.index_copy_(0, at, tensor);
  }
}

}  // namespace

ConcatDataset::ConcatDataset(std::vector<std::shared_ptr<const Dataset>> datasets) : datasets_(std::move(datasets)) {
  std::int64_t end = 0;
  for (const auto& dataset : datasets_) {
    if (!dataset) throw Error("a dataset is missing", "ConcatDataset", "give datasets only");
    ends_.push_back(end += dataset->size());
  }
  if (ends_.empty()) throw Error("no dataset to put together", "ConcatDataset", "give at least one");
}

std::size_t ConcatDataset::part_of(std::int64_t index) const {
  return static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
}

Example ConcatDataset::do_get(std::int64_t index) const {
  const std::size_t part = part_of(index);
  return datasets_[part]->get(index - start_of(part));
}

Batch ConcatDataset::do_get_batch(at::IntArrayRef indices) const {
  // Row j of the dataset `part`'s own batch is row rows[part][j] of the whole.
  std::vector<std::vector<std::int64_t>> inner(datasets_.size());
  std::vector<std::vector<std::int64_t>> rows(datasets_.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::size_t part = part_of(indices[i]);
    inner[part].push_back(indices[i] - start_of(part));
    rows[part].push_back(static_cast<std::int64_t>(i));
  }
  Batch whole;
  for (std::size_t part = 0; part < datasets_.size(); ++part) {
    if (inner[part].size() == indices.size()) return datasets_[part]->get_batch(inner[part]);
    if (!inner[part].empty()) copy_rows(whole, datasets_[part]->get_batch(inner[part]), rows[part], indices.size());
  }
  return whole;
}

}  // namespace lockstep
