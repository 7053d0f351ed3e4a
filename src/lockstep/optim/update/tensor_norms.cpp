#include "lockstep/optim/update/tensor_norms.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

namespace lockstep {
namespace {

using Kind = std::tuple<c10::DeviceType, c10::DeviceIndex, at::ScalarType>;

// Indices of tensors that LibTorch's functions over lists take together, and of the others that have elements.
struct TensorKinds {
  explicit TensorKinds(const std::vector<at::Tensor>& tensors) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const at::Tensor& tensor = tensors[i];
      if (tensor.numel() == 0) continue;
      const bool is_joined = tensor.layout() == at::kStrided && at::isFloatingType(tensor.scalar_type());
      if (is_joined) {
        joined[{tensor.device().type(), tensor.device().index(), tensor.scalar_type()}].push_back(i);
      } else {
        single.push_back(i);
      }
    }
  }
  std::map<Kind, std::vector<std::size_t>> joined;
  std::vector<std::size_t> single;
};

std::vector<at::Tensor> chosen(const std::vector<at::Tensor>& tensors, const std::vector<std::size_t>& indices) {
  std::vector<at::Tensor> some;
  for (const std::size_t i : indices) some.push_back(tensors[i]);
  return some;
}

}  // namespace

std::vector<double> norms_of(const std::vector<at::Tensor>& tensors, double p) {
  const at::NoGradGuard no_grad;
  const TensorKinds kinds(tensors);
  std::vector<double> norms(tensors.size());
  std::vector<std::pair<const std::vector<std::size_t>*, at::Tensor>> queued;  // before the first wait
  for (const auto& [kind, indices] : kinds.joined) {
    queued.emplace_back(&indices, at::stack(at::_foreach_norm(chosen(tensors, indices), p)).to(at::kDouble));
  }
  for (const auto& [indices, on_device] : queued) {
    const at::Tensor values = on_device.cpu();
    for (std::size_t i = 0; i < indices->size(); ++i) norms[(*indices)[i]] = values.data_ptr<double>()[i];
  }
  for (const std::size_t i : kinds.single) norms[i] = at::norm(tensors[i], p).item<double>();
  return norms;
}

bool are_finite(const std::vector<at::Tensor>& tensors) {
  const TensorKinds kinds(tensors);
  std::vector<at::Tensor> joined;
  for (const auto& [kind, indices] : kinds.joined) {
    for (const std::size_t i : indices) joined.push_back(tensors[i]);
  }
  const std::vector<double> largest = norms_of(joined, std::numeric_limits<double>::infinity());
  return std::all_of(largest.begin(), largest.end(), [](double value) { return std::isfinite(value); }) &&
         std::all_of(kinds.single.begin(), kinds.single.end(),
                     [&](std::size_t i) { return at::isfinite(tensors[i]).all().item<bool>(); });
}

void scale_tensors(const std::vector<at::Tensor>& tensors, double factor) {
  const at::NoGradGuard no_grad;
  const TensorKinds kinds(tensors);
  for (const auto& [kind, indices] : kinds.joined) at::_foreach_mul_(chosen(tensors, indices), factor);
  for (const std::size_t i : kinds.single) at::Tensor(tensors[i]).mul_(factor);
}

}  // namespace lockstep
