#include "lockstep/tensor/bf16_forward.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <sstream>
#include <unordered_map>

#include "lockstep/base/error.h"
#include "lockstep/tensor/compute_copy.h"
#include "lockstep/tensor/gradient_in_place.h"

namespace lockstep {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

[[noreturn]] void refuse_written(const at::Tensor& parameter) {
  std::ostringstream sizes;
  sizes << parameter.sizes();
  throw Error("a weight of shape " + sizes.str() +
                  " was changed between forward and backward within a Bf16Forward, as by an optimizer's step",
              "Bf16Forward",
              "call backward before the step, and end the Bf16Forward before it: until then forwards read the weights "
              "that were there at its beginning");
}

std::int64_t version_of(const at::Tensor& parameter) {
  return static_cast<std::int64_t>(parameter.unsafeGetTensorImpl()->version_counter().current_version());
}

/// A parameter in bf16, whose gradient is added to the parameter's own. All forwards of a scope share this node, so a
/// backward must not free what it holds, as it would free saved variables.
class InBf16 : public torch::autograd::Function<InBf16> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& parameter) {
    if (parameter.requires_grad()) {
      context->saved_data["parameter"] = parameter;
      context->saved_data["version"] = version_of(parameter);
    }
    // A tensor of its own over the same memory: the graph of this forward belongs to it.
    return compute_copy(parameter, at::kBFloat16).variable_data();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor parameter = context->saved_data["parameter"].toTensor();
    if (context->saved_data["version"].toInt() != version_of(parameter)) refuse_written(parameter);
    return {hand_over_gradient(parameter, gradients[0])};
  }
};

template <std::size_t kDim, typename Derived>
void add_convolution(torch::nn::Module& module, std::vector<at::Tensor*>& members) {
  if (auto* layer = dynamic_cast<torch::nn::ConvNdImpl<kDim, Derived>*>(&module)) {
    members.insert(members.end(), {&layer->weight, &layer->bias});
  }
}

// The members through which LibTorch's layers read their parameters.
void add_members(torch::nn::Module& module, std::vector<at::Tensor*>& members) {
  if (auto* layer = dynamic_cast<torch::nn::LinearImpl*>(&module)) {
    members.insert(members.end(), {&layer->weight, &layer->bias});
    return;
  }
  if (auto* layer = dynamic_cast<torch::nn::MultiheadAttentionImpl*>(&module)) {
    members.insert(members.end(), {&layer->in_proj_weight, &layer->in_proj_bias, &layer->q_proj_weight,
                                   &layer->k_proj_weight, &layer->v_proj_weight});
    return;
  }
  add_convolution<1, torch::nn::Conv1dImpl>(module, members);
  add_convolution<2, torch::nn::Conv2dImpl>(module, members);
  add_convolution<3, torch::nn::Conv3dImpl>(module, members);
  add_convolution<1, torch::nn::ConvTranspose1dImpl>(module, members);
  add_convolution<2, torch::nn::ConvTranspose2dImpl>(module, members);
  add_convolution<3, torch::nn::ConvTranspose3dImpl>(module, members);
}

bool can_be_replaced(const at::Tensor& parameter) {
  return parameter.defined() && parameter.is_leaf() && parameter.device().is_cpu() &&
         parameter.scalar_type() == at::kFloat && parameter.layout() == at::kStrided;
}

}  // namespace

Bf16Forward::Bf16Forward(torch::nn::Module& module) : autocast_(c10::DeviceType::CPU, at::kBFloat16, true) {
  std::vector<at::Tensor*> members;
  add_members(module, members);
  for (const auto& part : module.modules(/*include_self=*/false)) add_members(*part, members);
  const CopiesForGraphs copies;
  // One node for each parameter, also if layers share it: its gradients are then added up as under plain autocast.
  std::unordered_map<const c10::TensorImpl*, at::Tensor> made;
  for (at::Tensor* member : members) {
    if (!can_be_replaced(*member)) continue;
    at::Tensor& replacement = made[member->unsafeGetTensorImpl()];
    if (!replacement.defined()) replacement = InBf16::apply(*member);
    replaced_.emplace_back(member, std::exchange(*member, replacement));
  }
}

Bf16Forward::~Bf16Forward() {
  for (auto& [member, parameter] : replaced_) *member = std::move(parameter);
}

}  // namespace lockstep
