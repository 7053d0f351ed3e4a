#include "lockstep/data/tensor_dataset.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_select.h>

#include <algorithm>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/base/random/hash_bytes.h"

namespace lockstep {
namespace {

// An index_select that copies whole rows: one memcpy each, and no other threads, which would take cores from training.
at::Tensor gather_rows(const at::Tensor& rows, at::IntArrayRef indices) {
  if (!rows.is_contiguous() || !rows.device().is_cpu()) {
    const at::Tensor index = at::from_blob(const_cast<std::int64_t*>(indices.data()),
                                           {static_cast<std::int64_t>(indices.size())}, at::kLong);
    return at::index_select(rows, 0, index.to(rows.device()));
  }
  std::vector<std::int64_t> shape = rows.sizes().vec();
  const std::int64_t count = shape[0];
  shape[0] = static_cast<std::int64_t>(indices.size());
  at::Tensor out = at::empty(shape, rows.options());
  if (out.numel() == 0) return out;
  const std::size_t row_bytes = rows.nbytes() / static_cast<std::size_t>(count);
  const auto* from = static_cast<const char*>(rows.data_ptr());
  auto* to = static_cast<char*>(out.data_ptr());
  for (const std::int64_t index : indices) {
    std::memcpy(to, from + static_cast<std::size_t>(index) * row_bytes, row_bytes);
    to += row_bytes;
  }
  return out;
}

}  // namespace

TensorDataset::TensorDataset(Batch fields) : fields_(std::move(fields)), size_(batch_size(fields_)) {
  if (fields_.empty())
    throw Error("a dataset needs at least one tensor", "TensorDataset", "give it at least one tensor");
}

Example TensorDataset::do_get(std::int64_t index) const {
  Example example;
  for (const auto& [name, rows] : fields_) example[name] = rows.select(0, index);
  return example;
}

Batch TensorDataset::do_get_batch(at::IntArrayRef indices) const {
  Batch batch;
  for (const auto& [name, rows] : fields_) batch[name] = gather_rows(rows, indices);
  return batch;
}

bool TensorDataset::do_write_digests(at::IntArrayRef indices, std::uint64_t* digests) const {
  for (const auto& [name, rows] : fields_) {
    if (!rows.is_contiguous() || !rows.device().is_cpu()) return false;
  }
  std::fill_n(digests, indices.size(), 0);
  for (const auto& [name, rows] : fields_) {
    std::uint64_t of_field = hash_bytes(name.data(), name.size());
    mix_into(of_field, static_cast<std::uint64_t>(rows.scalar_type()));
    for (const std::int64_t size : rows.sizes().slice(1)) mix_into(of_field, static_cast<std::uint64_t>(size));
    const std::size_t row_bytes = size_ == 0 ? 0 : rows.nbytes() / static_cast<std::size_t>(size_);
    const auto* const first = static_cast<const char*>(rows.data_ptr());
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const char* const row = first + static_cast<std::size_t>(indices[i]) * row_bytes;
      digests[i] = hash_bytes(row, row_bytes, digests[i] ^ of_field);
    }
  }
  return true;
}

}  // namespace lockstep
