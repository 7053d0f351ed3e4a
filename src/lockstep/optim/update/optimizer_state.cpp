#include "lockstep/optim/update/optimizer_state.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr const char* kWhere = "named state of an optimizer";

std::map<const c10::TensorImpl*, std::string> names_by_tensor(const NamedParameters& names) {
  std::map<const c10::TensorImpl*, std::string> result;
  // A tensor that a module holds twice is listed under its first name, as in `parameters()`.
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
    throw Error(fmt::format("there are {} values for elements [{}, {})", flat.numel(), saved.begin, saved.end), kWhere,
                "the state is damaged: load another checkpoint");
  }
  if (!slot.is_part) return flat.view(slot.parameter.sizes());
  return flat.slice(0, slot.begin - saved.begin, slot.end - saved.begin);
}

using Parts = std::vector<const ParameterState*>;

// The parts that ranks hold of each parameter. A parameter that ranks do not share out is whole on each of them, and
// the first one counts.
std::map<std::string, Parts> parts_by_name(const std::vector<NamedState>& states) {
  std::map<std::string, Parts> all;
  for (const NamedState& states_of_rank : states) {
    for (const auto& [name, state] : states_of_rank) {
      if (state.begin == state.end && !state.is_whole()) continue;
      Parts& parts = all[name];
      const bool is_known = !parts.empty() && parts.front()->is_whole();
      if (!parts.empty() && is_known != state.is_whole()) {
        throw Error(fmt::format("the optimizer state of {} is given both whole and in parts", name), kWhere,
                    "load another checkpoint");
      }
      if (!is_known) parts.push_back(&state);
    }
  }
  return all;
}

void check_shape(const std::string& name, const StateSlot& slot, const ParameterState& saved) {
  if (saved.sizes == slot.parameter.sizes().vec()) return;
  throw Error(fmt::format("{} has shape [{}] here but [{}] in the state", name,
                          fmt::join(slot.parameter.sizes().vec(), ", "), fmt::join(saved.sizes, ", ")),
              kWhere, "load state that was saved for this model");
}

void check_fits(const std::string& name, const StateSlot& slot, const ParameterState& saved) {
  check_shape(name, slot, saved);
  if (saved.begin > slot.begin || saved.end < slot.end) {
    throw Error(fmt::format("elements [{}, {}) of {} are needed here, but [{}, {}) are in the state", slot.begin,
                            slot.end, name, saved.begin, saved.end),
                kWhere, "join the parts of all ranks with merge_states first");
  }
}

}  // namespace

OptimizerState::OptimizerState(torch::optim::Optimizer& optimizer, std::unique_ptr<const UpdateRule> rule)
    : optimizer_(optimizer), rule_(std::move(rule)) {}

const torch::optim::OptimizerOptions& OptimizerState::options(std::size_t group) const {
  return optimizer_.param_groups()[group].options();
}

void OptimizerState::refresh(StateSlot& slot) {
  auto& shown = optimizer_.state();
  const auto found = shown.find(slot.torch_key);
  if (found == shown.end()) {
    if (slot.shown) forget(slot);
    return;
  }
  StateBuffers given;
  std::int64_t step = slot.step;
  rule_->read_torch_state(*found->second, given, step);
  bool own = slot.shown && step == slot.step;
  for (std::size_t i = 0; i < given.size(); ++i) own = own && given[i].is_same(slot.buffers[i]);
  if (own) return;
  forget(slot);
  set_buffers(slot, given);
  slot.step = step;
  show(slot);
}

void OptimizerState::refresh_all() {
  const at::NoGradGuard no_grad;
  for (const auto& group : optimizer_.param_groups()) {
    for (const at::Tensor& parameter : group.params()) refresh(slots_.get(parameter));
  }
}

void OptimizerState::prepare(const std::vector<std::pair<StateSlot*, std::size_t>>& slots) {
  std::vector<std::pair<StateSlot*, std::size_t>> wanted;
  for (const auto& [slot, group] : slots) {
    refresh(*slot);
    const std::size_t count = rule_->num_buffers(options(group));
    if (count > 0 && !slot->buffers[count - 1].defined()) wanted.emplace_back(slot, count);
  }
  StateStore::allocate(wanted);
  for (const auto& [slot, count] : wanted) show(*slot);
}

void OptimizerState::count_update(StateSlot& slot) {
  ++slot.step;
  if (slot.shown) rule_->set_torch_step(*optimizer_.state()[slot.torch_key], slot.step);
}

void OptimizerState::update(const RunList& runs, const GradientSource& gradient) const {
  runs.execute([&](const UpdateRun& run, std::size_t begin, std::size_t end) {
    GradientSource source = gradient;
    source.sources = run.sources.data();
    source.num_sources = run.sources.size();
    source.type = run.gradient_type;
    rule_->update_run(options(run.group), run, source, begin, end);
  });
}

void OptimizerState::set_buffers(StateSlot& slot, const StateBuffers& values) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].defined()) count = i + 1;
  }
  StateStore::allocate({{&slot, count}});
  for (std::size_t i = 0; i < count; ++i) {
    if (values[i].defined()) slot.buffers[i].copy_(values[i]);
  }
  slot.first = false;
}

void OptimizerState::show(StateSlot& slot) {
  optimizer_.state()[slot.torch_key] = rule_->make_torch_state(slot.buffers, slot.step);
  slot.shown = true;
}

void OptimizerState::hide(StateSlot& slot) {
  optimizer_.state().erase(slot.torch_key);
  slot.shown = false;
}

void OptimizerState::forget(StateSlot& slot) {
  slot.buffers = {};
  slot.step = 0;
  slot.first = false;
  hide(slot);
}

void OptimizerState::copy_to(torch::optim::Optimizer& other) const {
  for (const auto& group : optimizer_.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      const StateSlot* slot = slots_.find(parameter);
      if (slot == nullptr || !slot->shown) continue;
      StateBuffers copies;
      for (std::size_t i = 0; i < copies.size(); ++i) {
        if (slot->buffers[i].defined()) copies[i] = slot->buffers[i].clone();
      }
      other.state()[slot->torch_key] = rule_->make_torch_state(copies, slot->step);
    }
  }
}

std::vector<std::string> OptimizerState::names() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < UpdateRun::kMaxBuffers && rule_->buffer_name(i) != nullptr; ++i) {
    names.emplace_back(rule_->buffer_name(i));
  }
  return names;
}

NamedState OptimizerState::named(const NamedParameters& names) const {
  const auto known = names_by_tensor(names);
  NamedState result;
  for (const auto& group : optimizer_.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      const std::string& name = name_of(known, parameter);
      const StateSlot* slot = slots_.find(parameter);
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
        state.tensors.emplace(rule_->buffer_name(i), buffer);
      }
      result.emplace(name, std::move(state));
    }
  }
  return result;
}

void OptimizerState::for_each_slot(const NamedParameters& names, const LoadSlot& load_slot) {
  const at::NoGradGuard no_grad;
  const auto known = names_by_tensor(names);
  for (const auto& group : optimizer_.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      StateSlot& slot = slots_.get(parameter);
      forget(slot);
      const std::string& name = name_of(known, parameter);
      if (slot.numel() > 0) load_slot(slot, name, rule_->num_buffers(group.options()));
    }
  }
}

void OptimizerState::load_named(const NamedParameters& names, const NamedState& state) {
  for_each_slot(names, [&](StateSlot& slot, const std::string& name, std::size_t needed) {
    const auto saved = state.find(name);
    if (saved == state.end()) return;
    check_fits(name, slot, saved->second);
    load(slot, name, saved->second, needed);
  });
}

void OptimizerState::load_named(const NamedParameters& names, const std::vector<NamedState>& states) {
  const auto all = parts_by_name(states);
  for_each_slot(names, [&](StateSlot& slot, const std::string& name, std::size_t needed) {
    const auto saved = all.find(name);
    if (saved == all.end()) return;
    check_shape(name, slot, *saved->second.front());
    load(slot, name, cut_state(name, saved->second, slot.begin, slot.end), needed);
  });
}

void OptimizerState::load(StateSlot& slot, const std::string& name, const ParameterState& saved, std::size_t needed) {
  StateBuffers given;
  std::size_t used = 0;
  for (std::size_t i = 0; i < given.size() && rule_->buffer_name(i) != nullptr; ++i) {
    const auto found = saved.tensors.find(rule_->buffer_name(i));
    if (found != saved.tensors.end()) {
      given[i] = part_for(slot, saved, found->second);
      ++used;
    } else if (i < needed && !saved.tensors.empty()) {
      throw Error(fmt::format("the state of {} has no {}", name, rule_->buffer_name(i)), kWhere,
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
  if (used > 0 && !slot.is_part) show(slot);
}

}  // namespace lockstep
