#include "lockstep/detail/checkpoint/tensor_parts.h"

#include <algorithm>

namespace lockstep {
namespace {

// The first element of a tensor at or behind byte `cut` of all tensors. The tensor begins at byte `at`.
std::int64_t element_at(std::int64_t cut, std::int64_t at, const at::Tensor& tensor) {
  const auto size = static_cast<std::int64_t>(tensor.element_size());
  return std::clamp<std::int64_t>((cut - at + size - 1) / size, 0, tensor.numel());
}

// Byte `rank` / `world_size` of `total`, without an overflow for any number of ranks.
std::int64_t cut_before(std::int64_t total, std::int64_t rank, std::int64_t world_size) {
  return total / world_size * rank + total % world_size * rank / world_size;
}

}  // namespace

TensorParts parts_of_rank(const NamedTensors& tensors, int rank, int world_size) {
  std::int64_t total = 0;
  for (const auto& item : tensors) total += static_cast<std::int64_t>(item.second.nbytes());
  const std::int64_t first = cut_before(total, rank, world_size);
  const std::int64_t last = cut_before(total, rank + 1, world_size);
  TensorParts share;
  std::int64_t at = 0;
  for (const auto& [name, tensor] : tensors) {
    const std::int64_t begin = element_at(first, at, tensor);
    const std::int64_t end = element_at(last, at, tensor);
    at += static_cast<std::int64_t>(tensor.nbytes());
    const bool is_empty = tensor.numel() == 0;
    if (begin == end && !(is_empty && rank == 0)) continue;
    share.push_back({name, tensor.sizes().vec(), begin, end, tensor.detach().reshape({-1}).slice(0, begin, end)});
  }
  return share;
}

}  // namespace lockstep
