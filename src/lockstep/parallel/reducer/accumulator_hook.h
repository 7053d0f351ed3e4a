#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <functional>
#include <utility>

namespace lockstep {

/// A call behind the accumulation of one parameter's gradient, that is, whenever backward has added to its `grad`.
///
/// Autograd accumulates in a node that belongs to the parameter, and the call is a hook on that node. But the node is
/// not for ever: `set_()` (which is how LibTorch's torch::load puts tensors in place) and a `set_data()` that changes
/// the type drop it, and the next forward makes another one, without hooks. Who relies on the call asks `is_current`
/// before each forward, and calls `follow` where it is not.
class AccumulatorHook {
 public:
  /// @param parameter  a leaf
  AccumulatorHook(at::Tensor parameter, std::function<void()> call);
  /// Takes the hook off.
  ~AccumulatorHook();
  AccumulatorHook(const AccumulatorHook&) = delete;
  AccumulatorHook& operator=(const AccumulatorHook&) = delete;

  /// Whether the next backward of the parameter ends here. Costs a comparison of two pointers.
  bool is_current() const;
  /// Puts the hook on the node that the parameter accumulates in now. A frozen parameter that never had a gradient has
  /// none: it is current until it is unfrozen.
  void follow();

 private:
  // A shared_ptr or an intrusive_ptr to the node, as LibTorch's version has it.
  using Node = decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

  void take_off();

  at::Tensor parameter_;
  std::function<void()> call_;
  Node node_;  // kept alive: the tensor itself holds it weakly
  std::uintptr_t key_ = 0;
};

}  // namespace lockstep
