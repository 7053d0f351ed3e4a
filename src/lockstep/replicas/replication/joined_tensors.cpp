#include "lockstep/replicas/replication/joined_tensors.h"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace lockstep {
namespace {

// All elements in a row, in the order of the memory if it has no holes.
at::Tensor in_a_row(const at::Tensor& tensor) {
  if (!tensor.is_non_overlapping_and_dense()) return tensor.detach().reshape({-1});
  return tensor.detach().as_strided({tensor.numel()}, {1});
}

at::Tensor with_shape_of(const at::Tensor& tensor, const at::Tensor& row) {
  return tensor.is_non_overlapping_and_dense() ? row.as_strided(tensor.sizes(), tensor.strides())
                                               : row.view(tensor.sizes());
}

}  // namespace

std::vector<at::Tensor> JoinedTensors::copies_on(c10::Device device, const std::vector<at::Tensor>& sources) {
  std::map<at::ScalarType, std::vector<std::size_t>> of_type;
  for (std::size_t i = 0; i < sources.size(); ++i) of_type[sources[i].scalar_type()].push_back(i);
  std::vector<at::Tensor> copies(sources.size());
  for (const auto& [type, indices] : of_type) {
    std::vector<at::Tensor> together;
    for (const std::size_t i : indices) together.push_back(sources[i]);
    const at::Tensor moved = joined(together).to(device);
    std::int64_t position = 0;
    for (const std::size_t i : indices) {
      copies[i] = with_shape_of(sources[i], moved.narrow(0, position, sources[i].numel()));
      position += sources[i].numel();
    }
  }
  return copies;
}

const at::Tensor& JoinedTensors::joined(const std::vector<at::Tensor>& sources) {
  Piece& piece = pieces_[sources.front().scalar_type()];
  const auto is_same = [](const at::Tensor& a, const at::Tensor& b) { return a.is_same(b); };
  if (!std::equal(sources.begin(), sources.end(), piece.sources.begin(), piece.sources.end(), is_same)) {
    std::vector<at::Tensor> flat;
    for (const at::Tensor& source : sources) flat.push_back(in_a_row(source));
    piece = {sources, at::cat(flat)};
  }
  return piece.memory;
}

}  // namespace lockstep
