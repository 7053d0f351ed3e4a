#include "lockstep/optim/update/sharded_update.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "lockstep/base/error.h"
#include "lockstep/optim/update/gradient_memory.h"

namespace lockstep {
namespace {

// The elements of parameter `index` that this rank updates, counted from the segment's start.
std::pair<std::int64_t, std::int64_t> owned(const FusedSegment& segment, std::size_t index) {
  const std::int64_t first = segment.offsets[index];
  const std::int64_t begin = std::max(segment.begin, first);
  const std::int64_t end = std::min(segment.end, first + segment.parameters[index].numel());
  return {begin, std::max(begin, end)};
}

void check_update(const FusedSegment& segment, const SegmentUpdate& update) {
  const GradientSource& gradient = update.gradient;
  const bool of_doubles = !segment.parameters.empty() && segment.parameters[0].scalar_type() == at::ScalarType::Double;
  const char* wrong = nullptr;
  if (update.weights == nullptr || update.weights_out == nullptr) wrong = "weights or weights_out is null";
  if (gradient.sources == nullptr || gradient.num_sources == 0) wrong = "there is no gradient";
  if (of_doubles != (gradient.type == ElementType::Double)) wrong = "gradients do not fit the weights' dtype";
  if (!update.skip.empty() && update.skip.size() != segment.parameters.size()) wrong = "skip has a wrong length";
  if (!update.copies.empty() && update.copies.size() != segment.parameters.size()) wrong = "copies has a wrong length";
  if (!update.copies.empty() && of_doubles) wrong = "fp64 weights have no copies";
  if (wrong == nullptr) return;
  throw Error(wrong, "update_segment", "set every pointer, and gradients of the weights' dtype or, for fp32, 16 bits");
}

}  // namespace

void ShardedUpdate::take(const std::vector<torch::optim::OptimizerParamGroup>& groups,
                         std::vector<FusedSegment> segments) {
  if (!is_empty()) throw Error("the optimizer is sharded already", "shard", "shard an optimizer once");
  const at::NoGradGuard no_grad;
  state_.refresh_all();
  std::unordered_map<const c10::TensorImpl*, std::size_t> group_of;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (const at::Tensor& parameter : groups[group].params()) group_of[parameter.unsafeGetTensorImpl()] = group;
  }
  std::unordered_set<const c10::TensorImpl*> seen;
  std::vector<std::vector<std::size_t>> segment_groups;
  for (std::size_t s = 0; s < segments.size(); ++s) {
    check_segment(segments[s]);
    segment_groups.emplace_back();
    for (std::size_t i = 0; i < segments[s].parameters.size(); ++i) {
      const auto* impl = segments[s].parameters[i].unsafeGetTensorImpl();
      const bool known = group_of.count(impl) != 0;
      if (!known || !seen.insert(impl).second) {
        throw Error(fmt::format("parameter {} of segment {} is {}", i, s,
                                known ? "in a segment already" : "not one of the optimizer's"),
                    "shard", "give each parameter of the optimizer at most once");
      }
      segment_groups.back().push_back(group_of[impl]);
    }
  }
  for (const FusedSegment& segment : segments) {
    for (std::size_t i = 0; i < segment.parameters.size(); ++i) {
      const auto [begin, end] = owned(segment, i);
      state_.hide(
          state_.slots().make_part(segment.parameters[i], begin - segment.offsets[i], end - segment.offsets[i]));
    }
  }
  segments_ = std::move(segments);
  groups_ = std::move(segment_groups);
}

void ShardedUpdate::clear() {
  for (const FusedSegment& segment : segments_) {
    for (const at::Tensor& parameter : segment.parameters) state_.slots().erase(parameter);
  }
  segments_.clear();
  groups_.clear();
}

void ShardedUpdate::update(std::size_t index, const SegmentUpdate& update) {
  const at::NoGradGuard no_grad;
  const FusedSegment& segment = segments_.at(index);
  check_update(segment, update);
  std::vector<std::pair<StateSlot*, std::size_t>> wanted;
  std::vector<std::size_t> taken;
  for (std::size_t i = 0; i < segment.parameters.size(); ++i) {
    if (i < update.skip.size() && update.skip[i]) continue;
    StateSlot& slot = *state_.slots().find(segment.parameters[i]);
    ++slot.step;
    if (slot.numel() == 0) continue;
    taken.push_back(i);
    wanted.emplace_back(&slot, state_.rule().num_buffers(state_.options(groups_[index][i])));
  }
  StateStore::allocate(wanted);
  RunList runs;
  for (std::size_t k = 0; k < taken.size(); ++k) runs.add(run_of(index, taken[k], update));
  state_.update(runs, update.gradient);
  for (const auto& [slot, count] : wanted) slot->first = false;
  // Other ranks have written their parts of the same weights.
  for (const at::Tensor& parameter : segment.parameters) parameter.unsafeGetTensorImpl()->bump_version();
}

UpdateRun ShardedUpdate::run_of(std::size_t index, std::size_t i, const SegmentUpdate& update) const {
  const FusedSegment& segment = segments_[index];
  const StateSlot& slot = *state_.slots().find(segment.parameters[i]);
  UpdateRun run;
  run.group = groups_[index][i];
  run.step = slot.step;
  run.first = slot.first;
  run.numel = static_cast<std::size_t>(slot.numel());
  element_type_of(segment.parameters[i].scalar_type(), run.type);
  run.gradient_type = update.gradient.type;
  const auto at = static_cast<std::size_t>(segment.offsets[i] + slot.begin);
  run.param = static_cast<const std::byte*>(update.weights) + at * element_size_bytes(run.type);
  run.param_out = static_cast<std::byte*>(update.weights_out) + at * element_size_bytes(run.type);
  if (!update.copies.empty()) {
    run.copy = update.copies[i];
    if (run.copy.out != nullptr) run.copy.out += slot.begin;
  }
  for (std::size_t b = 0; b < slot.buffers.size(); ++b) {
    if (slot.buffers[b].defined()) run.buffers[b] = static_cast<std::byte*>(slot.buffers[b].data_ptr());
  }
  for (std::size_t k = 0; k < update.gradient.num_sources; ++k) {
    run.sources.push_back(static_cast<std::byte*>(update.gradient.sources[k]) +
                          at * element_size_bytes(run.gradient_type));
  }
  return run;
}

}  // namespace lockstep
