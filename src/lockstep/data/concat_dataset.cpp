#include "lockstep/data/concat_dataset.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

// Makes fields like those of `part`, for `size` samples.
Batch empty_batch(const Batch& part, std::size_t size) {
  Batch batch;
  for (const auto& [name, tensor] : part) {
    std::vector<std::int64_t> shape = tensor.sizes().vec();
    shape[0] = static_cast<std::int64_t>(size);
    batch[name] = at::empty(shape, tensor.options());
  }
  return batch;
}

// Copies the samples of `part` to `rows` of `whole`.
void copy_rows(Batch& whole, const Batch& part, const std::vector<std::int64_t>& rows) {
  const at::Tensor index = at::tensor(rows);
  for (auto& [name, out] : whole) {
    const auto found = part.find(name);
    if (found == part.end() || part.size() != whole.size() || found->second.dtype() != out.dtype() ||
        found->second.sizes().slice(1) != out.sizes().slice(1)) {
      throw Error("the samples of two datasets differ in field \"" + name + "\": in names, shape or dtype",
                  "ConcatDataset", "concatenate datasets with the same fields");
    }
    out.index_copy_(0, index, found->second);
  }
}

}  // namespace

ConcatDataset::ConcatDataset(std::vector<std::shared_ptr<const Dataset>> datasets) : datasets_(std::move(datasets)) {
  std::int64_t end = 0;
  for (const auto& dataset : datasets_) {
    if (!dataset) throw Error("a dataset is missing", "ConcatDataset", "give datasets only");
    ends_.push_back(end += dataset->size());
  }
  if (ends_.empty()) throw Error("there is no dataset to concatenate", "ConcatDataset", "give at least one");
}

std::size_t ConcatDataset::part_of(std::int64_t index) const {
  return static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
}

Example ConcatDataset::do_get(std::int64_t index) const {
  const std::size_t part = part_of(index);
  return datasets_[part]->get(index - start_of(part));
}

Batch ConcatDataset::do_get_batch(at::IntArrayRef indices) const {
  // Row j of the batch from dataset `part` is row rows[part][j] of the whole batch.
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
    if (inner[part].empty()) continue;
    const Batch batch = datasets_[part]->get_batch(inner[part]);
    if (whole.empty()) whole = empty_batch(batch, indices.size());
    copy_rows(whole, batch, rows[part]);
  }
  return whole;
}

// Stretches of indices that lie in one part.
bool ConcatDataset::do_write_digests(at::IntArrayRef indices, std::uint64_t* digests) const {
  std::vector<std::int64_t> inner;
  for (std::size_t begin = 0; begin < indices.size();) {
    const std::size_t part = part_of(indices[begin]);
    inner.clear();
    for (std::size_t i = begin; i < indices.size() && part_of(indices[i]) == part; ++i) {
      inner.push_back(indices[i] - start_of(part));
    }
    if (!datasets_[part]->write_digests(inner, digests + begin)) return false;
    begin += inner.size();
  }
  return true;
}

}  // namespace lockstep
