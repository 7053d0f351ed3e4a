#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/detail/tensor/map_tensors.h"

namespace lockstep {

/// The samples of a batch that a torch::data loader returns. If the batch is a vector, as from a dataset without a
/// collating transform, they are its elements. Else they are the rows of its tensors along the first dimension, as made
/// by torch::data::transforms::Stack. For tensors inside a struct see visit_tensors.
template <typename Batch>
struct BatchRows {
  /// @throws Error  if the batch has no tensor with rows, or if its tensors have different numbers of rows
  static std::int64_t count(const Batch& batch) {
    std::int64_t rows = -1;
    for (const at::Tensor& tensor : tensors_of(batch)) {
      if (tensor.dim() == 0) continue;  // belongs to no sample
      if (rows >= 0 && tensor.size(0) != rows) refuse("the tensors of a batch differ in their number of rows");
      rows = tensor.size(0);
    }
    if (rows < 0) refuse("a batch holds no tensor with a row for each sample");
    return rows;
  }
  static Batch slice(const Batch& batch, std::int64_t begin, std::int64_t length) {
    std::vector<at::Tensor> parts = tensors_of(batch);
    for (at::Tensor& part : parts) {
      if (part.dim() > 0) part = part.narrow(0, begin, length);
    }
    return with_tensors(batch, parts);
  }
  static Batch join(const Batch& first, const Batch& second) {
    std::vector<at::Tensor> joined = tensors_of(first);
    const std::vector<at::Tensor> more = tensors_of(second);
    for (std::size_t i = 0; i < joined.size(); ++i) {
      if (joined[i].dim() > 0) joined[i] = at::cat({joined[i], more.at(i)});
    }
    return with_tensors(first, joined);
  }

 private:
  [[noreturn]] static void refuse(const char* what) {
    throw Error(
        what, "a prepared torch::data loader",
        "let the loader's dataset end with torch::data::transforms::Stack, or give batches of one row a sample");
  }
};

template <typename Sample>
struct BatchRows<std::vector<Sample>> {
  using Batch = std::vector<Sample>;
  static std::int64_t count(const Batch& batch) { return static_cast<std::int64_t>(batch.size()); }
  static Batch slice(const Batch& batch, std::int64_t begin, std::int64_t length) {
    return Batch(batch.begin() + begin, batch.begin() + begin + length);
  }
  static Batch join(Batch first, const Batch& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  }
};

}  // namespace lockstep
