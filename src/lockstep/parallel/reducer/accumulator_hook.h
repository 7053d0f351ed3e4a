#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <functional>
#include <utility>

namespace torch::autograd {
struct FunctionPreHook;
}

namespace lockstep {

/// Calls a function after the accumulation of one parameter's gradient, that is, whenever backward has added to its
/// `grad`.
///
/// Autograd accumulates in a node that belongs to the parameter, and the call is a hook on that node. The node can be
/// replaced: `set_()` (by which LibTorch's torch::load replaces tensors) and a `set_data()` that changes the type drop
/// it, and the next forward makes a new node without hooks. Users of the call must check `is_current` before each
/// forward, and call `follow` if it is false.
class AccumulatorHook {
 public:
  /// @param parameter  a leaf
  AccumulatorHook(at::Tensor parameter, std::function<void()> call);
  /// Removes the hook.
  ~AccumulatorHook();
  AccumulatorHook(const AccumulatorHook&) = delete;
  AccumulatorHook& operator=(const AccumulatorHook&) = delete;

  /// Whether the hook is on the node of the parameter's next backward. Costs a comparison of two pointers.
  bool is_current() const;
  /// Whether nobody has a hook on the node of the parameter's next backward.
  bool has_bare_node() const;
  /// Puts the hook on the present node of the parameter. A frozen parameter that never had a gradient has no node: it
  /// is current until it is unfrozen.
  void follow();
  /// From now on, `call` is made before backward adds to the gradient, too; empty: not any more.
  void call_before(std::function<void()> call);

 private:
  // A shared_ptr or an intrusive_ptr to the node, depending on LibTorch's version.
  using Node = decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

  void put_before();
  void take_off_before();
  void take_off();

  at::Tensor parameter_;
  std::function<void()> call_, before_;
  Node node_;  // kept alive: the tensor has only a weak reference
  std::uintptr_t key_ = 0;
  const torch::autograd::FunctionPreHook* before_hook_ = nullptr;  // the node's
};

}  // namespace lockstep
