#include "lockstep/models/activation.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>
#include <torch/csrc/autograd/custom_function.h>

namespace lockstep {
namespace {

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
