// FlatOptimizer's state under names, and its options.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/optim/flat_optimizer.h"

namespace lockstep {
namespace {

constexpr const char* kWhere = "named state of an optimizer";

std::map<const c10::TensorImpl*, std::string> names_by_tensor(const NamedParameters& names) {
  std::map<const c10::TensorImpl*, std::string> result;
  // A tensor that a module holds twice goes by its first name, as in `parameters()`.
  for (const auto& [name, tensor] : names) result.emplace(tensor.unsafeGetTensorImpl(), name);
  return result;
}

const std::string& name_of(const std::map<const c10::TensorImpl*, std::string>& names, const at::Tensor& parameter) {
  const auto found = names.find(parameter.unsafeGetTensorImpl());
  if (found != names.end()) return found->second;
  std::ostringstream what;
  what << "a parameter of shape " << parameter.sizes() << " has no name";
  throw Error(what.str(), kWhere, "pass named_parameters().pairs() of the module that the optimizer was built for");
}

// The elements of `saved` that belong in `slot`, in the shape of its buffers.
at::Tensor part_for(const StateSlot& slot, const ParameterState& saved, const at::Tensor& tensor) {
  const at::Tensor flat = tensor.reshape({-1});
  if (flat.numel() != saved.end - saved.begin) {
    throw Error(fmt::format("{} values stand for elements [{}, {})", flat.numel(), saved.begin, saved.end), kWhere,
                "the state is damaged: load another checkpoint");
  }
  if (!slot.is_part) return flat.view(slot.parameter.sizes());
  return flat.slice(0, slot.begin - saved.begin, slot.end - saved.begin);
}

void check_fits(const std::string& name, const StateSlot& slot, const ParameterState& saved) {
  if (!std::equal(saved.sizes.begin(), saved.sizes.end(), slot.parameter.sizes().begin(),
                  slot.parameter.sizes().end())) {
    throw Error(fmt::format("{} has shape [{}] here and [{}] in the state", name,
                            fmt::join(slot.parameter.sizes().vec(), ", "), fmt::join(saved.sizes, ", ")),
                kWhere, "load state that was saved for this model");
  }
  if (saved.begin > slot.begin || saved.end < slot.end) {
    throw Error(fmt::format("elements [{}, {}) of {} are wanted here, [{}, {}) are in the state", slot.begin, slot.end,
                            name, saved.begin, saved.end),
                kWhere, "join the parts of all ranks with merge_states first");
  }
}

}  // namespace

std::vector<std::string> FlatOptimizer::state_names() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < UpdateRun::kMaxBuffers && buffer_name(i) != nullptr; ++i)
    names.emplace_back(buffer_name(i));
  return names;
}

NamedState FlatOptimizer::named_state(const NamedParameters& names) const {
  const auto known = names_by_tensor(names);
  NamedState result;
  for (const auto& group : param_groups_) {
    for (const at::Tensor& parameter : group.params()) {
      const std::string& name = name_of(known, parameter);
      const StateSlot* slot = states_.find(parameter);
      if (slot == nullptr || slot->step == 0 || slot->numel() == 0) continue;
      ParameterState state;
      state.sizes = parameter.sizes().vec();
      state.begin = slot->begin;
      state.end = slot->end;
      state.step = slot->step;
      for (std::size_t i = 0; i < slot->buffers.size(); ++i) {
        at::Tensor buffer = slot->buffers[i];
        if (!buffer.defined()) continue;
        if (state.is_whole() && slot->is_part) buffer = buffer.view(parameter.sizes());
        state.tensors.emplace(buffer_name(i), buffer);
      }
      result.emplace(name, std::move(state));
    }
  }
  return result;
}

void FlatOptimizer::load_named_state(const NamedParameters& names, const NamedState& state) {
  const at::NoGradGuard no_grad;
  const auto known = names_by_tensor(names);
  for (const auto& group : param_groups_) {
    for (const at::Tensor& parameter : group.params()) {
      const std::string& name = name_of(known, parameter);
      StateSlot& slot = states_.get(parameter);
      forget(slot);
      const auto saved = state.find(name);
      if (saved == state.end() || slot.numel() == 0) continue;
      check_fits(name, slot, saved->second);
      load_slot(slot, name, saved->second, num_buffers(group.options()));
    }
  }
}

void FlatOptimizer::load_slot(StateSlot& slot, const std::string& name, const ParameterState& saved,
                              std::size_t needed) {
  Buffers given;
  std::size_t used = 0;
  for (std::size_t i = 0; i < given.size() && buffer_name(i) != nullptr; ++i) {
    const auto found = saved.tensors.find(buffer_name(i));
    if (found != saved.tensors.end()) {
      given[i] = part_for(slot, saved, found->second);
      ++used;
    } else if (i < needed && !saved.tensors.empty()) {
      throw Error(fmt::format("the state of {} has no {}", name, buffer_name(i)), kWhere,
                  "build the optimizer with the options that the state was saved with");
    }
  }
  if (used != saved.tensors.size()) {
    throw Error(
        fmt::format("the state of {} holds {}, which this optimizer does not keep", name, saved.tensors.begin()->first),
        kWhere, "build the kind of optimizer that the state was saved with");
  }
  set_buffers(slot, given);
  slot.step = saved.step;
  if (used > 0 && !slot.is_part) show_state(slot);
}

std::vector<std::map<std::string, double>> FlatOptimizer::group_options() const {
  std::vector<std::map<std::string, double>> result;
  for (const auto& group : param_groups_) result.push_back(option_values(group.options()));
  return result;
}

void FlatOptimizer::load_group_options(const std::vector<std::map<std::string, double>>& options) {
  if (options.size() != param_groups_.size()) {
    throw Error(fmt::format("{} parameter groups here, {} in the state", param_groups_.size(), options.size()), kWhere,
                "build the optimizer with the groups that the state was saved with");
  }
  for (std::size_t i = 0; i < options.size(); ++i) {
    const auto expected = option_values(param_groups_[i].options());
    const bool same = expected.size() == options[i].size() &&
                      std::equal(expected.begin(), expected.end(), options[i].begin(),
                                 [](const auto& a, const auto& b) { return a.first == b.first; });
    if (!same) {
      throw Error(fmt::format("the options of group {} are not those of this kind of optimizer", i), kWhere,
                  "build the kind of optimizer that the state was saved with");
    }
    set_option_values(param_groups_[i].options(), options[i]);
  }
}

void FlatOptimizer::throw_if_sharded(const std::string& operation) const {
  if (!is_sharded()) return;
  throw Error(
      operation + " needs all of the optimizer's state, but ranks hold a part of it each", "fused optimizer",
      "call ddp.unfuse() on every rank before it, and ddp.fuse(optimizer) after it; state by name needs neither: "
      "ddp.optimizer_state(optimizer) gives all of it on every rank, named_state this rank's part");
}

void FlatOptimizer::copy_state_to(torch::optim::Optimizer& other) const {
  throw_if_sharded("save");
  for (const auto& group : param_groups_) {
    for (const at::Tensor& parameter : group.params()) {
      const StateSlot* slot = states_.find(parameter);
      if (slot == nullptr || !slot->shown) continue;
      Buffers copies;
      for (std::size_t i = 0; i < copies.size(); ++i) {
        if (slot->buffers[i].defined()) copies[i] = slot->buffers[i].clone();
      }
      other.state()[slot->torch_key] = make_torch_state(copies, slot->step);
    }
  }
}

}  // namespace lockstep
