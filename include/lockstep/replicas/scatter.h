#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "lockstep/detail/tensor/map_tensors.h"
#include "lockstep/replicas/replica_device.h"

namespace lockstep {

/// Cuts `tensor` along `dim` into chunks for the devices, by the rule of `torch.chunk`: chunks of ceil(size / devices),
/// a smaller last one, and fewer chunks than devices if these are enough. A chunk for a CPU replica is a view; a chunk
/// for a CUDA device is copied there. Differentiable.
/// @throws Error  without devices, for a scalar, or if `dim` is not a dimension of the tensor
std::vector<at::Tensor> scatter_tensor(const at::Tensor& tensor, const std::vector<ReplicaDevice>& devices,
                                       std::int64_t dim = 0);

namespace detail {

/// [chunk][tensor]: the chunks of all tensors. @throws Error  if the tensors have different numbers of chunks
std::vector<std::vector<at::Tensor>> scatter_tensors(const std::vector<at::Tensor>& tensors,
                                                     const std::vector<ReplicaDevice>& devices, std::int64_t dim);

}  // namespace detail

/// Cuts all tensors inside `value` (of a type that DataParallel takes) and gives each device a value with
/// its chunks. Everything else in `value` is copied for each device. As `torch.nn.parallel.scatter`, with one
/// difference: tensors with different numbers of chunks are an Error, while PyTorch silently drops the end of the
/// longer ones.
/// @return  one value per chunk; one per device if `value` holds no tensor
/// @throws Error  as scatter_tensor
template <typename T>
std::vector<T> scatter(const T& value, const std::vector<ReplicaDevice>& devices, std::int64_t dim = 0) {
  std::vector<T> values;
  for (const auto& chunk : detail::scatter_tensors(tensors_of(value), devices, dim)) {
    values.push_back(with_tensors(value, chunk));
  }
  return values;
}

}  // namespace lockstep
