#include "lockstep/parallel/fused/recovery/shared_state.h"

#include <ATen/core/grad_mode.h>

#include <string>
#include <unordered_map>
#include <utility>

#include "lockstep/optim/memory_piece.h"
#include "lockstep/parallel/agreement/optimizer_state.h"

namespace lockstep {

SharedState::SharedState(const FlatOptimizer& optimizer, const std::vector<FusedBucket>& buckets,
                         const GradientBuckets& gradients, std::shared_ptr<LastingMemory> memory, int hosts,
                         bool is_there)
    : optimizer_(optimizer), memory_(std::move(memory)), hosts_(hosts), is_there_(is_there), buffers_(buckets.size()) {
  const NamedParameters names = numbered_parameters(optimizer);
  std::unordered_map<const c10::TensorImpl*, std::int64_t> steps;
  if (!is_there_) {
    before_ = optimizer.named_state(names);
    for (const auto& [name, parameter] : names) {
      const auto found = before_->find(name);
      if (found != before_->end()) steps[parameter.unsafeGetTensorImpl()] = found->second.step;
    }
  }
  const std::int64_t* const there = memory_->steps(memory_->header().number.load());
  for (const FusedBucket& bucket : buckets) {
    places_.emplace_back();
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
      const std::size_t index = bucket.parameters[i];
      const at::Tensor& parameter = gradients.parameter(index);
      const std::int64_t step = is_there_ ? there[index] : steps[parameter.unsafeGetTensorImpl()];
      places_.back().push_back({parameter, index, bucket.offsets[i], step});
    }
  }
}

void SharedState::take(FusedSegment& segment, std::size_t bucket, int world_size,
                       std::function<void(const at::Tensor& memory)> fill) {
  const std::int64_t numel = memory_->numel(bucket, world_size);
  if (is_there_) {
    segment.steps.emplace();
    for (const Place& place : places_[bucket]) segment.steps->push_back(place.step);
  }
  segment.allocate_state = [this, bucket, numel, fill = std::move(fill)] {
    std::vector<at::Tensor>& buffers = buffers_[bucket];
    const at::Tensor room = memory_->state(bucket, buffers.size());
    fill(room);
    buffers.push_back(room.narrow(0, 0, numel));
    return buffers.back();
  };
}

void SharedState::count(std::size_t bucket, const std::vector<bool>& skip) {
  for (std::size_t i = 0; i < places_[bucket].size(); ++i) places_[bucket][i].step += skip[i] ? 0 : 1;
}

void SharedState::write_steps(std::int64_t* by_parameter) const {
  for (const std::vector<Place>& bucket : places_) {
    for (const Place& place : bucket) by_parameter[place.index] = place.step;
  }
}

void SharedState::leave_weights() const {
  const at::NoGradGuard no_grad;
  for (std::size_t bucket = 0; bucket < places_.size(); ++bucket) {
    const at::Tensor weights = memory_->weights(bucket).narrow(0, 0, memory_->numel(bucket, 1));
    const at::Tensor own = weights.clone();
    for (const Place& place : places_[bucket]) {
      const bool is_here = place.parameter.data_ptr() == memory_piece(weights, place.offset, {1}).data_ptr();
      // Others have been moved by the program, unless they never were here and the memory alone has their values.
      if (!is_here && (are_here_ || !is_there_)) continue;
      at::Tensor(place.parameter).set_data(memory_piece(own, place.offset, place.parameter.sizes()));
    }
  }
}

NamedState SharedState::whole(const NamedParameters& names) const {
  std::unordered_map<const c10::TensorImpl*, std::string> known;
  for (const auto& [name, parameter] : names) known.emplace(parameter.unsafeGetTensorImpl(), name);
  const std::vector<std::string> kinds = optimizer_.state_names();
  NamedState result;
  if (before_) return *before_;
  for (std::size_t bucket = 0; bucket < places_.size(); ++bucket) {
    for (const Place& place : places_[bucket]) {
      if (place.step == 0) continue;
      ParameterState state;
      state.sizes = place.parameter.sizes().vec();
      state.end = place.parameter.numel();
      state.step = place.step;
      for (std::size_t b = 0; b < buffers_[bucket].size(); ++b) {
        state.tensors.emplace(kinds[b], memory_piece(buffers_[bucket][b], place.offset, place.parameter.sizes()));
      }
      result.emplace(known.at(place.parameter.unsafeGetTensorImpl()), std::move(state));
    }
  }
  return result;
}

}  // namespace lockstep
