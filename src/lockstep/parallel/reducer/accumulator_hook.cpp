#include "lockstep/parallel/reducer/accumulator_hook.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include <algorithm>
#include <memory>

#include "lockstep/tensor/before_accumulation.h"

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

bool AccumulatorHook::has_bare_node() const {
  const auto now = torch::autograd::impl::try_get_grad_accumulator(parameter_);
  return now && now->post_hooks().empty();
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
  put_before();
}

void AccumulatorHook::call_before(std::function<void()> call) {
  take_off_before();
  before_ = std::move(call);
  put_before();
}

void AccumulatorHook::put_before() {
  if (!node_ || !before_) return;
  auto hook = std::make_unique<BeforeAccumulation>(before_);
  before_hook_ = hook.get();
  node_->add_pre_hook(std::move(hook));
}

void AccumulatorHook::take_off_before() {
  if (!node_ || before_hook_ == nullptr) return;
  auto& hooks = node_->pre_hooks();
  const auto is_mine = [this](const auto& hook) { return hook.get() == before_hook_; };
  hooks.erase(std::remove_if(hooks.begin(), hooks.end(), is_mine), hooks.end());
  before_hook_ = nullptr;
}

void AccumulatorHook::take_off() {
  take_off_before();
  if (node_) node_->del_post_hook(key_);
  node_.reset();
}

}  // namespace lockstep
