#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/parallel/reducer/accumulator_hook.h"

namespace lockstep {

/// Learns in backward of the gradients of some parameters, also after a parameter got other memory.
///
/// Autograd may call from its own threads. It must not keep what it calls alive, nor rely on its existence: the calls
/// given here hold weak references.
class GradientHooks {
 public:
  using Call = std::function<void(std::size_t)>;

  explicit GradientHooks(std::vector<at::Tensor> parameters) : parameters_(std::move(parameters)) {}
  /// Removes all hooks.
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

  std::size_t size() const { return parameters_.size(); }
  /// From now on, calls `arrived` with the parameter's index whenever backward has added to a gradient.
  void install(const Call& arrived);
  /// Whether the next backward calls. Not if the parameter got other memory.
  bool is_current(std::size_t index) const { return hooks_[index]->is_current(); }
  /// Whether nobody, no other wrapper either, is called by the next backward.
  bool is_bare(std::size_t index) const { return hooks_[index]->has_bare_node(); }
  /// Makes all parameters current. @return  number of parameters that were not
  std::size_t follow();

  /// Without a forward through the wrapper nothing calls `follow`: if all parameters got other memory, backward does
  /// not call `arrived`. From now on, backward calls `reached` before it adds to the gradients of some parameters, at
  /// least one of them if there are any. @param everywhere  of all parameters
  void set_tripwires(const Call& reached, bool everywhere);
  /// From now on, every backward calls `reached` before it adds to the gradient of a parameter that is current, whether
  /// autograd adds it or a function does so in place. Empty: not any more.
  void call_before(const Call& reached);
  /// Calls `call` at the end of the backward that runs now, if it has changed the gradient of the parameter by then.
  void at_end_if_changed(std::size_t index, const std::function<void()>& call) const;

 private:
  std::vector<at::Tensor> parameters_;
  std::vector<std::unique_ptr<AccumulatorHook>> hooks_;
  std::vector<std::optional<unsigned>> tripwires_;  // ids of hooks on the tensors themselves
};

}  // namespace lockstep
