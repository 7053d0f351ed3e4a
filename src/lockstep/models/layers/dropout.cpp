#include "lockstep/models/layers/dropout.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mutex>

#include "lockstep/base/random/random_stream.h"

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
void drop_into(at::Tensor& out, const at::Tensor& x, DropoutDraw draw) {
  drop_values(x.data_ptr<T>(), out.data_ptr<T>(), x.numel(), draw);
}

at::Tensor dropped_values(const at::Tensor& x, DropoutDraw draw) {
  const at::Tensor input = x.contiguous();
  at::Tensor out = at::empty_like(input);
  if (x.scalar_type() == at::kDouble) {
    drop_into<double>(out, input, draw);
  } else if (x.scalar_type() == at::kBFloat16) {
    drop_into<at::BFloat16>(out, input, draw);
  } else {
    drop_into<float>(out, input, draw);
  }
  return out;
}

template <typename In, typename Out>
void drop_and_add_into(at::Tensor& out, const at::Tensor& x, const at::Tensor& residual, DropoutDraw draw) {
  drop_and_add_values(x.data_ptr<In>(), residual.data_ptr<Out>(), out.data_ptr<Out>(), x.numel(), draw);
}

at::Tensor dropped_and_added(const at::Tensor& x, const at::Tensor& residual, DropoutDraw draw) {
  const at::Tensor input = x.contiguous();
  const at::Tensor added = residual.contiguous();
  at::Tensor out = at::empty_like(added);
  if (x.scalar_type() == at::kDouble) {
    drop_and_add_into<double, double>(out, input, added, draw);
  } else if (x.scalar_type() == at::kBFloat16) {
    drop_and_add_into<at::BFloat16, float>(out, input, added, draw);
  } else {
    drop_and_add_into<float, float>(out, input, added, draw);
  }
  return out;
}

// Under autocast the layers compute in bf16, and what they are added to stays fp32.
bool is_bf16_on_fp32(const at::Tensor& x, const at::Tensor& residual) {
  return x.scalar_type() == at::kBFloat16 && residual.scalar_type() == at::kFloat;
}

class Drop : public torch::autograd::Function<Drop> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, DropoutDraw draw) {
    save_draw(context, draw);
    return dropped_values(x, draw);
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
    return dropped_and_added(x, residual, draw);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {Drop::apply(gradients[0], saved_draw(context)), gradients[0], at::Tensor()};
  }
};

}  // namespace

bool can_apply_draws(const at::Tensor& x) {
  const at::ScalarType type = x.scalar_type();
  return x.device().is_cpu() && (type == at::kFloat || type == at::kDouble || type == at::kBFloat16);
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
  const bool has_kernel =
      is_bf16_on_fp32(x, residual) || (x.scalar_type() == residual.scalar_type() && x.scalar_type() != at::kBFloat16);
  const bool is_plain = !is_training || p <= 0 || !can_apply_draws(x) || !has_kernel || residual.sizes() != x.sizes();
  if (!is_plain) return DropAndAdd::apply(x, residual, draw_dropout(p));
  const at::Tensor dropped = apply_dropout(x, p, is_training);
  // LibTorch adds tensors of two types in a fraction of the speed at which it casts one of them and adds.
  return (is_bf16_on_fp32(x, residual) ? dropped.to(at::kFloat) : dropped) + residual;
}

}  // namespace lockstep
