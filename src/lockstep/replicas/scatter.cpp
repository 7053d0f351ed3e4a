#include "lockstep/replicas/scatter.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/chunk.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

std::string scatter_where(const at::Tensor& tensor, std::size_t devices) {
  return fmt::format("scatter of a tensor [{}] over {} replicas", fmt::join(tensor.sizes().vec(), ", "), devices);
}

void check_can_scatter(const at::Tensor& tensor, const std::vector<ReplicaDevice>& devices, std::int64_t dim) {
  if (devices.empty()) throw Error("there is no device to scatter to", "scatter", "name at least one device");
  if (!tensor.defined()) return;
  const std::string where = scatter_where(tensor, devices.size());
  if (tensor.dim() == 0) {
    throw Error("chunk expects at least a 1-dimensional tensor", where,
                "pass a number as a number: it goes to every replica");
  }
  if (dim < -tensor.dim() || dim >= tensor.dim()) {
    throw Error(fmt::format("the tensor has no dimension {}", dim), where, "choose another dim");
  }
}

}  // namespace

std::vector<at::Tensor> scatter_tensor(const at::Tensor& tensor, const std::vector<ReplicaDevice>& devices,
                                       std::int64_t dim) {
  check_can_scatter(tensor, devices, dim);
  if (!tensor.defined()) return std::vector<at::Tensor>(devices.size());
  std::vector<at::Tensor> chunks = at::chunk(tensor, static_cast<std::int64_t>(devices.size()), dim);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const c10::Device device = devices[i].tensor_device();
    if (chunks[i].device() != device) chunks[i] = chunks[i].to(device, /*non_blocking=*/true);
  }
  return chunks;
}

namespace detail {

std::vector<std::vector<at::Tensor>> scatter_tensors(const std::vector<at::Tensor>& tensors,
                                                     const std::vector<ReplicaDevice>& devices, std::int64_t dim) {
  const at::Tensor* first = nullptr;
  std::vector<std::vector<at::Tensor>> chunks;  // [chunk][tensor]
  std::vector<std::vector<at::Tensor>> by_tensor;
  for (const at::Tensor& tensor : tensors) {
    by_tensor.push_back(scatter_tensor(tensor, devices, dim));
    if (!tensor.defined()) continue;
    if (first == nullptr) {
      first = &tensor;
      chunks.resize(by_tensor.back().size());
    } else if (by_tensor.back().size() != chunks.size()) {
      throw Error(fmt::format("tensors [{}] and [{}] of one batch are cut into {} and {} chunks along dimension {}",
                              fmt::join(first->sizes().vec(), ", "), fmt::join(tensor.sizes().vec(), ", "),
                              chunks.size(), by_tensor.back().size(), dim),
                  fmt::format("scatter over {} replicas", devices.size()),
                  "give every tensor the batch's size; `expand` does it without a copy");
    }
  }
  if (devices.empty()) throw Error("there is no device to scatter to", "scatter", "name at least one device");
  if (first == nullptr) chunks.resize(devices.size());
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    for (auto& parts : by_tensor) chunks[i].push_back(std::move(parts[i]));
  }
  return chunks;
}

}  // namespace detail
}  // namespace lockstep
