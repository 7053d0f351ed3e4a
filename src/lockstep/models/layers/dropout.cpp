#include "lockstep/models/layers/dropout.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mutex>

#include "lockstep/base/random_stream.h"

namespace lockstep {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void save_draw(AutogradContext* context, DropoutDraw draw) {
  context->saved_data["seed"] = static_cast<std::int64_t>(draw.seed);
  context->saved_data["p"] = draw.p;
}

DropoutDraw saved_draw(AutogradContext* context) {
  return {static_cast<std::uint64_t>(context->saved_data["seed"].toInt()), context->saved_data["p"].toDouble()};
}

template <typename T>
void run_kernel(const at::Tensor& x, const at::Tensor* residual, at::Tensor& out, DropoutDraw draw) {
  if (residual == nullptr) {
    drop_values(x.data_ptr<T>(), out.data_ptr<T>(), x.numel(), draw);
  } else {
    drop_and_add_values(x.data_ptr<T>(), residual->data_ptr<T>(), out.data_ptr<T>(), x.numel(), draw);
  }
}

at::Tensor compute(const at::Tensor& x, const at::Tensor* residual, DropoutDraw draw) {
  const at::Tensor input = x.contiguous();
  const at::Tensor added = residual == nullptr ? at::Tensor() : residual->contiguous();
  at::Tensor out = at::empty_like(input);
  const at::Tensor* other = residual == nullptr ? nullptr : &added;
  x.scalar_type() == at::kDouble ? run_kernel<double>(input, other, out, draw)
                                 : run_kernel<float>(input, other, out, draw);
  return out;
}

class Drop : public torch::autograd::Function<Drop> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, DropoutDraw draw) {
    save_draw(context, draw);
    return compute(x, nullptr, draw);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {Drop::apply(gradients[0], saved_draw(context)), at::Tensor()};
  }
};

class DropAndAdd : public torch::autograd::Function<DropAndAdd> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& residual,
                            DropoutDraw draw) {
    save_draw(context, draw);
    return compute(x, &residual, draw);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {Drop::apply(gradients[0], saved_draw(context)), gradients[0], at::Tensor()};
  }
};

}  // namespace

bool can_apply_draws(const at::Tensor& x) {
  return x.device().is_cpu() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble);
}

DropoutDraw draw_dropout(double p) {
  if (RandomStream* stream = current_random_stream()) return {stream->next(), p};
  auto* generator = at::check_generator<at::CPUGeneratorImpl>(at::detail::getDefaultCPUGenerator());
  const std::lock_guard<std::mutex> lock(generator->mutex_);
  return {generator->random64(), p};
}

at::Tensor apply_draw(const at::Tensor& x, DropoutDraw draw) { return Drop::apply(x, draw); }

at::Tensor apply_dropout(const at::Tensor& x, double p, bool is_training) {
  if (!is_training || p <= 0) return x;
  return can_apply_draws(x) ? apply_draw(x, draw_dropout(p)) : at::dropout(x, p, true);
}

at::Tensor add_dropout(const at::Tensor& x, const at::Tensor& residual, double p, bool is_training) {
  const bool is_plain = !is_training || p <= 0 || !can_apply_draws(x) || residual.scalar_type() != x.scalar_type() ||
                        residual.sizes() != x.sizes();
  if (is_plain) return apply_dropout(x, p, is_training) + residual;
  return DropAndAdd::apply(x, residual, draw_dropout(p));
}

}  // namespace lockstep
