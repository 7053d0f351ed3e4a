#include "lockstep/optim/flatten.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <tuple>
#include <unordered_set>

#include "lockstep/base/error.h"
#include "lockstep/optim/kernels/large_pages.h"
#include "lockstep/optim/memory_piece.h"

namespace lockstep {
namespace {

constexpr std::int64_t kParameterAlignmentBytes = 64;  // a cache line, and the widest vector

[[noreturn]] void refuse_flatten(const std::string& what, const std::string& fix) { throw Error(what, "flatten", fix); }

std::int64_t aligned_numel(const at::Tensor& tensor) {
  const auto step = kParameterAlignmentBytes / static_cast<std::int64_t>(tensor.element_size());
  return (tensor.numel() + step - 1) / step * step;
}

void check_parameter(const at::Tensor& parameter, std::size_t index) {
  const bool dense = parameter.defined() && parameter.layout() == at::kStrided;
  if (!dense || !parameter.is_leaf()) {
    refuse_flatten(fmt::format("parameter {} is {}", index, dense ? "computed from others" : "undefined or sparse"),
                   "flatten the dense parameters of a module only");
  }
}

at::Tensor allocate_checked(const AllocateFlat& allocate, std::int64_t numel, const at::Tensor& like) {
  if (!allocate) {
    at::Tensor memory = at::empty({numel}, like.options().requires_grad(false));
    if (memory.device().is_cpu()) advise_large_pages(memory.data_ptr(), memory.nbytes());
    return memory;
  }
  at::Tensor memory = allocate(numel, like.scalar_type());
  const bool fits = memory.defined() && memory.dim() == 1 && memory.numel() == numel && memory.is_contiguous() &&
                    memory.scalar_type() == like.scalar_type() && memory.device() == like.device();
  if (!fits)
    refuse_flatten(fmt::format("the allocator did not give {} contiguous elements", numel), "correct the allocator");
  if (reinterpret_cast<std::uintptr_t>(memory.data_ptr()) % kParameterAlignmentBytes != 0) {
    refuse_flatten("the allocator gave memory that is not on a multiple of 64 bytes", "align the memory");
  }
  return memory;
}

void move_into(FlatParameters& flat, const AllocateFlat& allocate) {
  std::int64_t numel = 0;
  for (const at::Tensor& parameter : flat.parameters) {
    flat.offsets.push_back(numel);
    numel += aligned_numel(parameter);
  }
  flat.memory = allocate_checked(allocate, numel, flat.parameters.front());
  flat.memory.zero_();
  for (std::size_t i = 0; i < flat.parameters.size(); ++i) {
    at::Tensor& parameter = flat.parameters[i];
    const at::Tensor place = parameter.is_non_overlapping_and_dense()
                                 ? memory_piece(flat.memory, flat.offsets[i], parameter.sizes(), parameter.strides())
                                 : memory_piece(flat.memory, flat.offsets[i], parameter.sizes());
    place.copy_(parameter.detach());
    parameter.set_data(place);
  }
}

}  // namespace

void check_no_shared_memory(const std::vector<at::Tensor>& parameters) {
  std::vector<std::tuple<std::uintptr_t, std::uintptr_t, std::size_t>> spans;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].has_storage()) continue;  // deferred: it will get memory of its own
    const auto begin = reinterpret_cast<std::uintptr_t>(parameters[i].data_ptr());
    std::uintptr_t last = 0;
    for (std::int64_t d = 0; d < parameters[i].dim(); ++d) {
      last += static_cast<std::uintptr_t>((parameters[i].size(d) - 1) * parameters[i].stride(d));
    }
    if (parameters[i].numel() > 0) spans.emplace_back(begin, begin + (last + 1) * parameters[i].element_size(), i);
  }
  std::sort(spans.begin(), spans.end());
  for (std::size_t k = 1; k < spans.size(); ++k) {
    if (std::get<0>(spans[k]) < std::get<1>(spans[k - 1])) {
      refuse_flatten(fmt::format("parameters {} and {} share memory", std::get<2>(spans[k - 1]), std::get<2>(spans[k])),
                     "register the same tensor twice instead of two views of it");
    }
  }
}

std::vector<FlatParameters> flatten(const std::vector<at::Tensor>& parameters, const AllocateFlat& allocate) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> unique;
  std::unordered_set<const c10::TensorImpl*> seen;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    check_parameter(parameters[i], i);
    if (seen.insert(parameters[i].unsafeGetTensorImpl()).second) unique.push_back(parameters[i]);
  }
  check_no_shared_memory(unique);
  std::vector<FlatParameters> kinds;
  for (const at::Tensor& parameter : unique) {
    auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const FlatParameters& flat) {
      return flat.parameters.front().scalar_type() == parameter.scalar_type() &&
             flat.parameters.front().device() == parameter.device();
    });
    if (kind == kinds.end()) kind = kinds.emplace(kinds.end());
    kind->parameters.push_back(parameter);
  }
  for (FlatParameters& flat : kinds) move_into(flat, allocate);
  return kinds;
}

std::vector<FlatParameters> flatten(torch::nn::Module& module, const AllocateFlat& allocate) {
  return flatten(module.parameters(), allocate);
}

}  // namespace lockstep
