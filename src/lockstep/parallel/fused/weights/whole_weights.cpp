#include "lockstep/parallel/fused/weights/whole_weights.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace lockstep {

WholeWeights::WholeWeights(UpdateContext& context)
    : plan_(context.plan),
      gradients_(context.gradients),
      buckets_(context.buckets),
      watch_(*context.watch),
      communicator_(*context.communicator) {
  if (!plan_.shares_weights() || plan_.outlives_group || communicator_.world_size() == 1) return;
  writes_.emplace(static_cast<WriteWatcher&>(*this));
  for (const FusedBucket& bucket : buckets_) {
    for (const std::size_t i : bucket.parameters) writes_->watch(gradients_.parameter(i), i);
  }
}

void WholeWeights::before_write(std::size_t index) {
  const at::NoGradGuard no_grad;
  at::Tensor parameter = gradients_.parameter(index);
  parameter.set_data(parameter.detach().clone());
  watch_.note_own_memory(index);
}

bool WholeWeights::is_moved(std::size_t index, std::size_t place) const {
  const FusedBucket& bucket = buckets_[index];
  const at::Tensor& parameter = gradients_.parameter(bucket.parameters[place]);
  const auto offset = static_cast<std::size_t>(bucket.offsets[place]) * bucket.weights.element_size();
  return parameter.numel() != 0 &&
         parameter.data_ptr() != static_cast<const std::byte*>(bucket.weights.data_ptr()) + offset;
}

void WholeWeights::adopt(std::size_t index, std::size_t place) {
  const FusedBucket& bucket = buckets_[index];
  at::Tensor parameter = gradients_.parameter(bucket.parameters[place]);
  const std::int64_t offset = bucket.offsets[place];
  const at::Tensor target = weights_place(bucket, place, parameter.sizes());
  const std::int64_t begin = std::max<std::int64_t>(0, bucket.filled.begin - offset);
  const std::int64_t end = std::min(parameter.numel(), bucket.filled.end - offset);
  if (begin < end) {
    target.view({-1}).slice(0, begin, end).copy_(parameter.detach().reshape({-1}).slice(0, begin, end));
  }
  parameter.set_data(target);
  if (writes_) writes_->watch(parameter, bucket.parameters[place]);
}

void WholeWeights::move_to_own_memory() {
  if (!plan_.shares_weights()) return;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    for (std::size_t i = 0; i < buckets_[b].parameters.size(); ++i) {
      at::Tensor parameter = gradients_.parameter(buckets_[b].parameters[i]);
      if (!is_moved(b, i)) parameter.set_data(parameter.detach().clone());
    }
  }
}

void WholeWeights::leave() {
  if (!plan_.shares_weights()) return;
  for (const FusedBucket& bucket : buckets_) leave_shared_weights(bucket, gradients_);
}

}  // namespace lockstep
