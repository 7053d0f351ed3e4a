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

bool ShardedUpdate::shares_state() const {
  return std::any_of(segments_.begin(), segments_.end(),
                     [](const FusedSegment& segment) { return segment.allocate_state != nullptr; });
}

void ShardedUpdate::take(const std::vector<torch::optim::OptimizerParamGroup>& groups,
                         std::vector<FusedSegment> segments) {
  if (!segments.empty() && segments.front().steps) clear();
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
  allocate_state(segments, segment_groups);
  segments_ = std::move(segments);
  groups_ = std::move(segment_groups);
  for (std::size_t s = 0; s < segments_.size(); ++s) {
    const FusedSegment& segment = segments_[s];
    for (std::size_t i = 0; i < segment.parameters.size(); ++i) {
      const auto [begin, end] = owned(segment, i);
      state_.hide(
          state_.slots().make_part(segment.parameters[i], begin - segment.offsets[i], end - segment.offsets[i]));
      if (segment.allocate_state) segment.steps ? find_in_shared(s, i) : move_to_shared(s, i);
    }
  }
}

// As many buffers as the options need, or as there are already.
void ShardedUpdate::allocate_state(std::vector<FusedSegment>& segments,
                                   const std::vector<std::vector<std::size_t>>& groups) {
  shared_.assign(segments.size(), {});
  for (std::size_t s = 0; s < segments.size(); ++s) {
    if (!segments[s].allocate_state) continue;
    std::size_t count = 0;
    for (std::size_t i = 0; i < segments[s].parameters.size(); ++i) {
      count = std::max(count, state_.rule().num_buffers(state_.options(groups[s][i])));
      const StateBuffers& present = state_.slots().get(segments[s].parameters[i]).buffers;
      for (std::size_t b = count; b < present.size(); ++b) {
        if (present[b].defined()) count = b + 1;
      }
    }
    while (shared_[s].size() < count) shared_[s].push_back(segments[s].allocate_state());
  }
}

// Each rank knows whether a parameter's state is set, also if other ranks alone update it.
void ShardedUpdate::move_to_shared(std::size_t index, std::size_t i) {
  const FusedSegment& segment = segments_[index];
  StateSlot& slot = *state_.slots().find(segment.parameters[i]);
  slot.first = !slot.buffers[0].defined() || slot.first;
  for (std::size_t b = 0; b < shared_[index].size(); ++b) {
    const at::Tensor place = shared_[index][b].narrow(0, segment.offsets[i] + slot.begin, slot.numel());
    if (slot.buffers[b].defined()) {
      place.copy_(slot.buffers[b]);
    } else {
      place.zero_();
    }
    slot.buffers[b] = place;
  }
}

void ShardedUpdate::find_in_shared(std::size_t index, std::size_t i) {
  const FusedSegment& segment = segments_[index];
  StateSlot& slot = *state_.slots().find(segment.parameters[i]);
  slot.step = (*segment.steps)[i];
  slot.first = slot.step == 0;
  for (std::size_t b = 0; b < shared_[index].size(); ++b) {
    slot.buffers[b] = shared_[index][b].narrow(0, segment.offsets[i] + slot.begin, slot.numel());
  }
}

void ShardedUpdate::clear() {
  for (const FusedSegment& segment : segments_) {
    for (const at::Tensor& parameter : segment.parameters) state_.slots().erase(parameter);
  }
  segments_.clear();
  groups_.clear();
  shared_.clear();
}

void ShardedUpdate::update(std::size_t index, const SegmentUpdate& update) {
  const at::NoGradGuard no_grad;
  const FusedSegment& segment = segments_.at(index);
  if (segment.allocate_state && !update.range) return count(index, update);
  check_update(segment, update);
  if (update.range) return update_range(index, update);
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

void ShardedUpdate::update_range(std::size_t index, const SegmentUpdate& update) const {
  const FusedSegment& segment = segments_[index];
  if (!segment.allocate_state) {
    throw Error("a range of a segment whose state is not shared", "update_segment",
                "update all of this rank's elements");
  }
  const auto first = std::upper_bound(segment.offsets.begin(), segment.offsets.end(), update.range->begin);
  RunList runs;
  for (auto i = static_cast<std::size_t>(std::max<std::ptrdiff_t>(first - segment.offsets.begin() - 1, 0));
       i < segment.parameters.size() && segment.offsets[i] < update.range->end; ++i) {
    if (i < update.skip.size() && update.skip[i]) continue;
    const std::int64_t begin = std::max(update.range->begin, segment.offsets[i]);
    const std::int64_t end = std::min(update.range->end, segment.offsets[i] + segment.parameters[i].numel());
    if (begin >= end) continue;
    runs.add(run_in_range(index, i, update, {begin, end}));
  }
  state_.update(runs, update.gradient);
}

// Elements [begin, end) of parameter `i`. @param part  counted from the segment's start
UpdateRun ShardedUpdate::run_in_range(std::size_t index, std::size_t i, const SegmentUpdate& update,
                                      std::pair<std::int64_t, std::int64_t> part) const {
  const auto [begin, end] = part;
  const StateSlot& slot = *state_.slots().find(segments_[index].parameters[i]);
  UpdateRun run;
  run.group = groups_[index][i];
  run.step = slot.step + 1;
  run.first = slot.first;
  run.numel = static_cast<std::size_t>(end - begin);
  if (!update.copies.empty() && update.copies[i].out != nullptr) {
    run.copy = update.copies[i];
    run.copy.out += begin - segments_[index].offsets[i];
  }
  place(index, update, begin, run);
  const std::size_t needed = state_.rule().num_buffers(state_.options(run.group));
  if (shared_[index].size() < needed) {
    throw Error("the options need more state than there is memory for", "fused optimizer",
                "set amsgrad and momentum before fuse");
  }
  const std::size_t offset_bytes = static_cast<std::size_t>(begin) * element_size_bytes(run.type);
  for (std::size_t b = 0; b < shared_[index].size(); ++b) {
    run.buffers[b] = static_cast<std::byte*>(shared_[index][b].data_ptr()) + offset_bytes;
  }
  if (update.range->undo.word != nullptr) run.undo = update.range->undo.from(static_cast<std::size_t>(begin));
  return run;
}

// All elements of the segment are updated.
void ShardedUpdate::count(std::size_t index, const SegmentUpdate& update) {
  const FusedSegment& segment = segments_[index];
  for (std::size_t i = 0; i < segment.parameters.size(); ++i) {
    segment.parameters[i].unsafeGetTensorImpl()->bump_version();
    if (i < update.skip.size() && update.skip[i]) continue;
    StateSlot& slot = *state_.slots().find(segment.parameters[i]);
    ++slot.step;
    slot.first = false;
  }
}

UpdateRun ShardedUpdate::run_of(std::size_t index, std::size_t i, const SegmentUpdate& update) const {
  const FusedSegment& segment = segments_[index];
  const StateSlot& slot = *state_.slots().find(segment.parameters[i]);
  UpdateRun run;
  run.group = groups_[index][i];
  run.step = slot.step;
  run.first = slot.first;
  run.numel = static_cast<std::size_t>(slot.numel());
  if (!update.copies.empty()) {
    run.copy = update.copies[i];
    if (run.copy.out != nullptr) run.copy.out += slot.begin;
  }
  place(index, update, segment.offsets[i] + slot.begin, run);
  for (std::size_t b = 0; b < slot.buffers.size(); ++b) {
    if (slot.buffers[b].defined()) run.buffers[b] = static_cast<std::byte*>(slot.buffers[b].data_ptr());
  }
  return run;
}

// The run's weights and gradients, from element `begin` of the segment on.
void ShardedUpdate::place(std::size_t index, const SegmentUpdate& update, std::int64_t begin, UpdateRun& run) const {
  element_type_of(segments_[index].parameters.front().scalar_type(), run.type);
  run.gradient_type = update.gradient.type;
  const auto at = static_cast<std::size_t>(begin);
  run.param = static_cast<const std::byte*>(update.weights) + at * element_size_bytes(run.type);
  run.param_out = static_cast<std::byte*>(update.weights_out) + at * element_size_bytes(run.type);
  for (std::size_t k = 0; k < update.gradient.num_sources; ++k) {
    run.sources.push_back(static_cast<std::byte*>(update.gradient.sources[k]) +
                          at * element_size_bytes(run.gradient_type));
  }
}

}  // namespace lockstep
