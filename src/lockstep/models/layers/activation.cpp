#include "lockstep/detail/models/activation.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/models/layers/gelu_kernel.h"

namespace lockstep {
namespace {

// Hendrycks and Gimpel (2016), arXiv:1606.08415: the logistic function that is nearest to the normal distribution's.
constexpr double kQuickGeluFactor = 1.702;

at::Tensor gelu_gradient(const at::Tensor& x, const at::Tensor& dy) {
  const at::Tensor input = x.contiguous(), gradient = dy.contiguous();
  at::Tensor result = at::empty_like(input);
  gelu_gradients(input.data_ptr<at::BFloat16>(), gradient.data_ptr<at::BFloat16>(), result.data_ptr<at::BFloat16>(),
                 input.numel());
  return result;
}

// GELU in bf16. LibTorch's backward takes twice as long in bf16 as in fp32, casts included; and for GELU itself these
// casts and its backward in fp32 take four to six times as long as the kernel.
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
    const at::Tensor x = context->get_saved_variables()[0];
    const std::string approximation = context->saved_data["approximation"].toStringRef();
    const bool has_kernel = approximation == "none" && !c10::GradMode::is_enabled();  // which no graph differentiates
    if (has_kernel) return {gelu_gradient(x, gradients[0]), at::Tensor()};
    return {at::gelu_backward(gradients[0].to(at::kFloat), x.to(at::kFloat), approximation).to(at::kBFloat16),
            at::Tensor()};
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
