#include "lockstep/tensor/gradient_in_place.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <c10/util/BFloat16.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "lockstep/tensor/before_accumulation.h"

namespace lockstep {
namespace {

using torch::autograd::FunctionPreHook;

const BeforeAccumulation* as_call(const std::unique_ptr<FunctionPreHook>& hook) {
  return dynamic_cast<const BeforeAccumulation*>(hook.get());
}

bool is_plain_backward() {
  const auto* restriction = torch::autograd::get_current_graph_task_exec_info();
  return !c10::GradMode::is_enabled() && (restriction == nullptr || restriction->empty());
}

bool has_hooks(const at::Tensor& parameter) {
  if (!torch::autograd::impl::hooks(parameter).empty()) return true;
  const auto accumulator = torch::autograd::impl::try_get_grad_accumulator(parameter);
  if (!accumulator) return false;
  const auto& hooks = accumulator->pre_hooks();
  return !std::all_of(hooks.begin(), hooks.end(), [](const auto& hook) { return as_call(hook) != nullptr; });
}

// What autograd does only when it adds the gradient itself. It may put another tensor into `grad`.
void call_before_accumulation(const at::Tensor& parameter) {
  const auto accumulator = torch::autograd::impl::try_get_grad_accumulator(parameter);
  if (!accumulator) return;
  for (const auto& hook : accumulator->pre_hooks()) as_call(hook)->call();
}

// LibTorch adds tensors of two types at a third of the speed at which it casts one of them and adds, and the cast
// writes and reads 4 bytes more for each element than this. In blocks, which the compiler turns into vectors.
void add_bfloat16(float* __restrict sum, const c10::BFloat16* __restrict addend, std::int64_t count) {
  constexpr std::int64_t kBlock = 32;
  std::int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    for (std::int64_t k = 0; k < kBlock; ++k) sum[i + k] += static_cast<float>(addend[i + k]);
  }
  for (; i < count; ++i) sum[i] += static_cast<float>(addend[i]);
}

bool can_add_bfloat16(const at::Tensor& sum, const at::Tensor& addend) {
  return sum.scalar_type() == at::kFloat && addend.scalar_type() == at::kBFloat16 && sum.device().is_cpu() &&
         addend.is_contiguous() && sum.sizes() == addend.sizes() && at::get_num_threads() == 1;
}

}  // namespace

at::Tensor gradient_in_place(const at::Tensor& parameter) {
  if (!is_plain_backward() || !parameter.is_leaf() || has_hooks(parameter)) return {};
  call_before_accumulation(parameter);
  const at::Tensor& gradient = parameter.grad();
  const bool fits = gradient.defined() && gradient.layout() == at::kStrided && gradient.is_contiguous() &&
                    !gradient.requires_grad() && gradient.scalar_type() == parameter.scalar_type() &&
                    gradient.device() == parameter.device();
  return fits ? gradient : at::Tensor();
}

at::Tensor hand_over_gradient(const at::Tensor& parameter, const at::Tensor& gradient) {
  at::Tensor in_place = gradient_in_place(parameter);
  if (!in_place.defined()) return gradient.to(parameter.scalar_type());
  if (can_add_bfloat16(in_place, gradient)) {
    add_bfloat16(in_place.data_ptr<float>(), gradient.data_ptr<c10::BFloat16>(), gradient.numel());
    in_place.unsafeGetTensorImpl()->bump_version();
  } else {
    in_place.add_(gradient.to(parameter.scalar_type()));
  }
  return {};
}

}  // namespace lockstep
