#include "lockstep/parallel/fused/recovery/shared_state.h"

#include <string>
#include <unordered_map>
#include <utility>

#include "lockstep/optim/memory_piece.h"
#include "lockstep/parallel/agreement/optimizer_state.h"
#include "lockstep/parallel/fused/memory/one_copy.h"

namespace lockstep {

SharedState::SharedState(const FlatOptimizer& optimizer, const std::vector<FusedBucket>& buckets,
                         const GradientBuckets& gradients)
    : optimizer_(optimizer), buffers_(buckets.size()) {
  const NamedParameters names = numbered_parameters(optimizer);
  const NamedState present = optimizer.named_state(names);
  std::unordered_map<const c10::TensorImpl*, std::int64_t> steps;
  for (const auto& [name, parameter] : names) {
    const auto found = present.find(name);
    if (found != present.end()) steps[parameter.unsafeGetTensorImpl()] = found->second.step;
  }
  for (const FusedBucket& bucket : buckets) {
    places_.emplace_back();
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
      const at::Tensor& parameter = gradients.parameter(bucket.parameters[i]);
      places_.back().push_back({parameter, bucket.offsets[i], steps[parameter.unsafeGetTensorImpl()]});
    }
  }
}

void SharedState::take(FusedSegment& segment, std::size_t bucket, Communicator& communicator) {
  const std::int64_t numel = segment.end - segment.begin;
  const at::TensorOptions options = segment.parameters.front().options().requires_grad(false);
  segment.allocate_state = [this, bucket, &communicator, options, numel] {
    buffers_[bucket].push_back(allocate_lasting_copy(communicator, numel * communicator.world_size(), options));
    return buffers_[bucket].back();
  };
}

void SharedState::count(std::size_t bucket, const std::vector<bool>& skip) {
  for (std::size_t i = 0; i < places_[bucket].size(); ++i) places_[bucket][i].step += skip[i] ? 0 : 1;
}

NamedState SharedState::whole(const NamedParameters& names) const {
  std::unordered_map<const c10::TensorImpl*, std::string> known;
  for (const auto& [name, parameter] : names) known.emplace(parameter.unsafeGetTensorImpl(), name);
  const std::vector<std::string> kinds = optimizer_.state_names();
  NamedState result;
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
