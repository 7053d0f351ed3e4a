#include "lockstep/parallel/reducer/accumulator_hook.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include <memory>

namespace lockstep {

AccumulatorHook::AccumulatorHook(at::Tensor parameter, std::function<void()> call)
    : parameter_(std::move(parameter)), call_(std::move(call)) {
  follow();
}

AccumulatorHook::~AccumulatorHook() { take_off(); }

bool AccumulatorHook::is_current() const {
  const auto now = torch::autograd::impl::try_get_grad_accumulator(parameter_);
  if (now) return now == node_;
  return !node_ && !parameter_.requires_grad();
}

void AccumulatorHook::follow() {
  using torch::autograd::variable_list;
  take_off();
  // Null if the parameter is frozen.
  node_ = torch::autograd::impl::grad_accumulator(parameter_);
  if (!node_) return;
  key_ = node_->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
      [call = call_](const variable_list& outputs, const variable_list&) {
        call();
        return outputs;
      }));
}

void AccumulatorHook::take_off() {
  if (node_) node_->del_post_hook(key_);
  node_.reset();
}

}  // namespace lockstep
