#pragma once

#include <torch/optim/optimizer.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/detail/optim/named_state.h"
#include "lockstep/optim/update/state_store.h"
#include "lockstep/optim/update/update_rule.h"

namespace lockstep {

/// An optimizer's state: in flat memory, in LibTorch's map of states, and by name for files.
class OptimizerState {
 public:
  /// @param optimizer  the owner of the groups and of the map of states; outlives this object
  OptimizerState(torch::optim::Optimizer& optimizer, std::unique_ptr<const UpdateRule> rule);

  const UpdateRule& rule() const { return *rule_; }
  const torch::optim::OptimizerOptions& options(std::size_t group) const;
  StateStore& slots() { return slots_; }
  const StateStore& slots() const { return slots_; }

  /// Takes over state that a program replaced or removed through `Optimizer::state()`.
  void refresh(StateSlot& slot);
  void refresh_all();
  /// Allocates the buffers for updates of each slot, which is in parameter group `second`, and shows them in LibTorch's
  /// map.
  void prepare(const std::vector<std::pair<StateSlot*, std::size_t>>& slots);
  /// Counts an update of the slot, in LibTorch's map too.
  void count_update(StateSlot& slot);
  /// Updates all elements of `runs` by the rule's kernels. @param gradient  without sources; each run has its own
  void update(const RunList& runs, const GradientSource& gradient) const;
  /// Removes the slot's state from LibTorch's map.
  void hide(StateSlot& slot);
  /// Gives copies of all state to one of LibTorch's optimizers. An archive writes the whole storage of a view, and the
  /// tensors here are views into memory that all parameters share.
  void copy_to(torch::optim::Optimizer& other) const;

  /// See FlatOptimizer.
  std::vector<std::string> names() const;
  NamedState named(const NamedParameters& names) const;
  void load_named(const NamedParameters& names, const NamedState& state);
  void load_named(const NamedParameters& names, const std::vector<NamedState>& states);

 private:
  using LoadSlot = std::function<void(StateSlot& slot, const std::string& name, std::size_t needed_buffers)>;

  /// Forgets the state of every parameter, and calls `load_slot` for those of which this rank updates something.
  void for_each_slot(const NamedParameters& names, const LoadSlot& load_slot);
  void set_buffers(StateSlot& slot, const StateBuffers& values);
  void show(StateSlot& slot);
  void forget(StateSlot& slot);
  void load(StateSlot& slot, const std::string& name, const ParameterState& saved, std::size_t needed);

  torch::optim::Optimizer& optimizer_;
  std::unique_ptr<const UpdateRule> rule_;
  StateStore slots_;
};

}  // namespace lockstep
