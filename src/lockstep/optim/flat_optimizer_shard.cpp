// FlatOptimizer where every rank updates a part of the parameters.
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "lockstep/base/error.h"
#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/optim/gradient_memory.h"

namespace lockstep {
namespace {

// The elements of parameter `index` that the rank updates, counted from the segment's start.
std::pair<std::int64_t, std::int64_t> owned(const FusedSegment& segment, std::size_t index) {
  const std::int64_t first = segment.offsets[index];
  const std::int64_t begin = std::max(segment.begin, first);
  const std::int64_t end = std::min(segment.end, first + segment.parameters[index].numel());
  return {begin, std::max(begin, end)};
}

void check_update(const FusedSegment& segment, const FusedUpdate& update) {
  const GradientSource& gradient = update.gradient;
  const bool of_doubles = !segment.parameters.empty() && segment.parameters[0].scalar_type() == at::ScalarType::Double;
  const char* wrong = nullptr;
  if (update.weights == nullptr || update.weights_out == nullptr) wrong = "weights or weights_out is null";
  if (gradient.sources == nullptr || gradient.num_sources == 0) wrong = "there is no gradient";
  if (of_doubles != (gradient.type == ElementType::Double)) wrong = "gradients do not fit the weights' dtype";
  if (!update.skip.empty() && update.skip.size() != segment.parameters.size()) wrong = "skip has a wrong length";
  if (wrong == nullptr) return;
  throw Error(wrong, "update_segment", "set every pointer, and gradients of the weights' dtype or, for fp32, 16 bits");
}

}  // namespace

void FlatOptimizer::shard(std::vector<FusedSegment> segments) {
  if (is_sharded()) throw Error("the optimizer is sharded already", "shard", "shard an optimizer once");
  const at::NoGradGuard no_grad;
  refresh_all_state();
  std::unordered_map<const c10::TensorImpl*, std::size_t> groups;
  for (std::size_t group = 0; group < param_groups_.size(); ++group) {
    for (const at::Tensor& parameter : param_groups_[group].params()) groups[parameter.unsafeGetTensorImpl()] = group;
  }
  std::unordered_set<const c10::TensorImpl*> seen;
  std::vector<std::vector<std::size_t>> segment_groups;
  for (std::size_t s = 0; s < segments.size(); ++s) {
    check_segment(segments[s]);
    segment_groups.emplace_back();
    for (std::size_t i = 0; i < segments[s].parameters.size(); ++i) {
      const auto* impl = segments[s].parameters[i].unsafeGetTensorImpl();
      const bool known = groups.count(impl) != 0;
      if (!known || !seen.insert(impl).second) {
        throw Error(fmt::format("parameter {} of segment {} is {}", i, s,
                                known ? "in a segment already" : "not one of the optimizer's"),
                    "shard", "give each parameter of the optimizer at most once");
      }
      segment_groups.back().push_back(groups[impl]);
    }
  }
  for (const FusedSegment& segment : segments) {
    for (std::size_t i = 0; i < segment.parameters.size(); ++i) {
      const auto [begin, end] = owned(segment, i);
      hide_state(states_.make_part(segment.parameters[i], begin - segment.offsets[i], end - segment.offsets[i]));
    }
  }
  segments_ = std::move(segments);
  segment_groups_ = std::move(segment_groups);
}

void FlatOptimizer::unshard(const NamedParameters& names, const NamedState& whole) {
  for (const FusedSegment& segment : segments_) {
    for (const at::Tensor& parameter : segment.parameters) states_.erase(parameter);
  }
  segments_.clear();
  segment_groups_.clear();
  load_named_state(names, whole);
}

void FlatOptimizer::update_segment(std::size_t index, const FusedUpdate& update) {
  const at::NoGradGuard no_grad;
  const FusedSegment& segment = segments_.at(index);
  check_update(segment, update);
  std::vector<std::pair<StateSlot*, std::size_t>> wanted;
  std::vector<std::size_t> taken;
  for (std::size_t i = 0; i < segment.parameters.size(); ++i) {
    if (i < update.skip.size() && update.skip[i]) continue;
    StateSlot& slot = *states_.find(segment.parameters[i]);
    ++slot.step;
    if (slot.numel() == 0) continue;
    taken.push_back(i);
    wanted.emplace_back(&slot, num_buffers(param_groups_[segment_groups_[index][i]].options()));
  }
  StateStore::allocate(wanted);
  RunList runs;
  for (std::size_t k = 0; k < taken.size(); ++k) runs.add(segment_run(index, taken[k], update));
  run_kernels(runs, update.gradient);
  for (const auto& [slot, count] : wanted) slot->first = false;
  // Other ranks have written their parts of the same weights.
  for (const at::Tensor& parameter : segment.parameters) parameter.unsafeGetTensorImpl()->bump_version();
}

UpdateRun FlatOptimizer::segment_run(std::size_t index, std::size_t i, const FusedUpdate& update) const {
  const FusedSegment& segment = segments_[index];
  const StateSlot& slot = *states_.find(segment.parameters[i]);
  UpdateRun run;
  run.group = segment_groups_[index][i];
  run.step = slot.step;
  run.first = slot.first;
  run.numel = static_cast<std::size_t>(slot.numel());
  element_type_of(segment.parameters[i].scalar_type(), run.type);
  run.gradient_type = update.gradient.type;
  const auto at = static_cast<std::size_t>(segment.offsets[i] + slot.begin);
  run.param = static_cast<const std::byte*>(update.weights) + at * element_size_bytes(run.type);
  run.param_out = static_cast<std::byte*>(update.weights_out) + at * element_size_bytes(run.type);
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
