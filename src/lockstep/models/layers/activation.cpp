#include "lockstep/models/activation.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace lockstep {
namespace {

constexpr std::pair<const char*, Activation> kNames[] = {
    {"gelu", Activation::Gelu},         {"gelu_python", Activation::Gelu},
    {"gelu_new", Activation::GeluNew},  {"gelu_pytorch_tanh", Activation::GeluNew},
    {"gelu_fast", Activation::GeluNew}, {"quick_gelu", Activation::QuickGelu},
    {"relu", Activation::Relu},         {"silu", Activation::Silu},
    {"swish", Activation::Silu},        {"tanh", Activation::Tanh}};

// Hendrycks and Gimpel (2016), arXiv:1606.08415: the logistic function that is nearest to the normal distribution's.
constexpr double kQuickGeluFactor = 1.702;

// GELU in bf16. LibTorch's backward takes twice as long in bf16 as in fp32, casts included.
class GeluOfBf16 : public torch::autograd::Function<GeluOfBf16> {
 public:
  using Context = torch::autograd::AutogradContext;
  using Tensors = torch::autograd::variable_list;

  static at::Tensor forward(Context* context, const at::Tensor& x, const std::string& approximation) {
    context->save_for_backward({x});
    context->saved_data["approximation"] = approximation;
    return at::gelu(x, approximation);
  }

  static Tensors backward(Context* context, const Tensors& gradients) {
    const at::Tensor x = context->get_saved_variables()[0].to(at::kFloat);
    const std::string approximation = context->saved_data["approximation"].toStringRef();
    return {at::gelu_backward(gradients[0].to(at::kFloat), x, approximation).to(at::kBFloat16), at::Tensor()};
  }
};

at::Tensor gelu_of(const at::Tensor& x, const std::string& approximation) {
  const bool is_bf16 = x.device().is_cpu() && x.scalar_type() == at::kBFloat16;
  return is_bf16 ? GeluOfBf16::apply(x, approximation) : at::gelu(x, approximation);
}

}  // namespace

std::optional<Activation> parse_activation(const std::string& name) {
  for (const auto& [known, activation] : kNames) {
    if (name == known) return activation;
  }
  return std::nullopt;
}

std::string activation_name(Activation activation) {
  for (const auto& [name, known] : kNames) {
    if (activation == known) return name;  // the first is the usual one
  }
  return "";
}

std::string known_activations() {
  std::string text;
  for (const auto& item : kNames) text += (text.empty() ? "" : ", ") + std::string(item.first);
  return text;
}

at::Tensor activate(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::Gelu:
      return gelu_of(x, "none");
    case Activation::GeluNew:
      return gelu_of(x, "tanh");
    case Activation::QuickGelu:
      return x * at::sigmoid(x * kQuickGeluFactor);
    case Activation::Relu:
      return at::relu(x);
    case Activation::Silu:
      return at::silu(x);
    case Activation::Tanh:
      return at::tanh(x);
  }
  return x;
}

}  // namespace lockstep
