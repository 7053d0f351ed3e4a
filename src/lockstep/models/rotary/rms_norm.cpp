#include "lockstep/models/rotary/rms_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/rsqrt.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/tensor/gradient_in_place.h"

namespace lockstep {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor inverse_root_mean_square(const at::Tensor& x, double eps) {
  return at::rsqrt(x.square().mean(-1, /*keepdim=*/true) + eps);
}

// Keeps x and one number a row; autograd would keep four matrices.
class RmsNormFunction : public torch::autograd::Function<RmsNormFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight, double eps,
                            at::ScalarType type) {
    const at::Tensor scale = inverse_root_mean_square(x, eps);
    context->save_for_backward({x, weight, scale});
    context->saved_data["eps"] = eps;
    const at::Tensor unit = x * scale;
    return type == x.scalar_type() && type == weight.scalar_type() ? unit.mul_(weight) : unit.to(type) * weight;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const at::Tensor dy = gradients[0].to(x.scalar_type());
    // A graph of the gradients needs the scale's dependence on x.
    const at::Tensor scale =
        c10::GradMode::is_enabled() ? inverse_root_mean_square(x, context->saved_data["eps"].toDouble()) : saved[2];
    const at::Tensor unit = x * scale;
    variable_list result(4);
    if (x.requires_grad()) {
      const at::Tensor d_unit = dy * weight;
      result[0] = (d_unit - unit * (d_unit * unit).mean(-1, /*keepdim=*/true)) * scale;
    }
    if (weight.requires_grad()) {
      result[1] = hand_over_gradient(weight, (dy * unit).flatten(0, -2).sum(0));
    }
    return result;
  }
};

}  // namespace

RmsNorm::RmsNorm(std::int64_t size, double eps) : weight_(register_parameter("weight", at::empty({size}))), eps_(eps) {}

at::Tensor RmsNorm::forward(const at::Tensor& x) const {
  const at::ScalarType type = weight_.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return RmsNormFunction::apply(x.to(type), weight_, eps_, type == at::kDouble ? type : x.scalar_type());
}

}  // namespace lockstep
