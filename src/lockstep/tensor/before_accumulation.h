#pragma once

#include <torch/csrc/autograd/function_hook.h>

#include <functional>
#include <utility>

namespace lockstep {

/// A hook in front of a parameter's gradient accumulator: the call is made before backward adds to `grad`, and sees no
/// gradient. Autograd makes it; so does `gradient_in_place`, before a function adds to the gradient itself. (A hook on
/// the parameter, or another one here, may read the gradient, which then must pass the accumulator.)
class BeforeAccumulation final : public torch::autograd::FunctionPreHook {
 public:
  explicit BeforeAccumulation(std::function<void()> call) : call_(std::move(call)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
    call_();
    return gradients;
  }
  void call() const { call_(); }

 private:
  std::function<void()> call_;
};

}  // namespace lockstep
