// ShardedWeights: what parameters are while their bucket is here or not, and what the program writes to them.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>

#include "lockstep/parallel/fused/weights/sharded_weights.h"

namespace lockstep {
namespace {

std::byte* bytes_at(const at::Tensor& memory, std::int64_t offset) {
  return static_cast<std::byte*>(memory.data_ptr()) + static_cast<std::size_t>(offset) * memory.element_size();
}

}  // namespace

// Those of the unit alone: another that shares a bucket shows its own when it is read.
void ShardedWeights::show_unit(std::size_t number) {
  for (const std::size_t index : buckets_of(number)) {
    Bucket& state = states_[index];
    for (std::size_t place = 0; place < state.views.size(); ++place) {
      const std::size_t unit = plan_.of[buckets_[index].parameters[place]];
      if (unit == number % plan_.units.size()) show(index, place, state.views[place], state.samples[place]);
    }
  }
}

void ShardedWeights::hide_unit(std::size_t number) {
  for (const std::size_t index : buckets_of(number)) {
    const Bucket& state = states_[index];
    const FusedBucket& bucket = buckets_[index];
    for (std::size_t place = 0; place < state.views.size(); ++place) {
      if (plan_.of[bucket.parameters[place]] != number % plan_.units.size()) continue;
      hide(index, place, {state.views[place], state.samples[place], bytes_at(bucket.weights, bucket.offsets[place])});
    }
  }
}

void ShardedWeights::show(std::size_t index, std::size_t place, const at::Tensor& view, WeightSample& sample) {
  const at::Tensor& parameter = gradients_.parameter(buckets_[index].parameters[place]);
  if (!is_absent(parameter)) return;
  become(parameter, view);
  sample.take(parameter);
}

void ShardedWeights::hide(std::size_t index, std::size_t place, const Shown& shown) {
  const at::Tensor& parameter = gradients_.parameter(buckets_[index].parameters[place]);
  if (!is_watched(parameter) || !has_become(parameter, shown.view)) return;
  if (is_written(index, place, shown)) {
    give_own_memory(index, place, shown.elements);
  } else {
    become(parameter, states_[index].absent[place]);
  }
}

Region ShardedWeights::own_part(std::size_t index, std::size_t place) const {
  const FusedBucket& bucket = buckets_[index];
  const std::int64_t offset = bucket.offsets[place];
  Region part = bucket.own;
  part.begin = std::max(part.begin, offset);
  part.end = std::min(part.end, offset + gradients_.parameter(bucket.parameters[place]).numel());
  return part;
}

// Autograd counts most writes; the owner of a part sees all writes to it.
bool ShardedWeights::is_written(std::size_t index, std::size_t place, const Shown& shown) const {
  const FusedBucket& bucket = buckets_[index];
  const at::Tensor& parameter = gradients_.parameter(bucket.parameters[place]);
  if (parameter.numel() == 0) return false;
  if (shown.sample.has_new_version(parameter) || shown.sample.has_new_elements(parameter)) return true;
  const Region own = own_part(index, place);
  if (own.begin >= own.end) return false;
  const std::size_t size = parameter.element_size();
  return std::memcmp(shown.elements + static_cast<std::size_t>(own.begin - bucket.offsets[place]) * size,
                     bytes_at(states_[index].shard, own.begin - bucket.own.begin),
                     static_cast<std::size_t>(own.end - own.begin) * size) != 0;
}

// The parameter must be in memory: with its bucket, or by its unit's part.
ShardedWeights::Shown ShardedWeights::shown(std::size_t index, std::size_t place) const {
  const FusedBucket& bucket = buckets_[index];
  const std::size_t parameter = bucket.parameters[place];
  const Bucket& state = states_[index];
  if (!has_become(gradients_.parameter(parameter), state.views[place])) {
    return {copies_->view_in_part(parameter), copies_->sample_in_part(parameter), copies_->elements_in_part(parameter)};
  }
  return {state.views[place], state.samples[place], bytes_at(bucket.weights, bucket.offsets[place])};
}

void ShardedWeights::take_writes() {
  for (std::size_t index = 0; keeps_all_ && index < buckets_.size(); ++index) {
    for (std::size_t place = 0; place < buckets_[index].parameters.size(); ++place) {
      const at::Tensor& parameter = gradients_.parameter(buckets_[index].parameters[place]);
      if (!is_watched(parameter) || is_absent(parameter)) continue;
      const Shown now = shown(index, place);
      if (is_written(index, place, now)) give_own_memory(index, place, now.elements);
    }
  }
}

// The parameter is then as after torch::load: the next step takes its values over.
void ShardedWeights::give_own_memory(std::size_t index, std::size_t place, const std::byte* elements) {
  const FusedBucket& bucket = buckets_[index];
  const at::Tensor& parameter = gradients_.parameter(bucket.parameters[place]);
  const at::AutoDispatchBelowADInplaceOrView untracked;
  const at::Tensor own = at::empty(parameter.sizes(), bucket.weights.options());
  std::memcpy(own.data_ptr(), elements, own.nbytes());
  become(parameter, own);
}

// One unit after the other, so that there are never two copies of everything.
void ShardedWeights::give_back() {
  free_all();
  for (std::size_t unit = 0; unit < plan_.units.size(); ++unit) {
    start(whole_of(unit));
    finish(whole_of(unit));
    for (const std::size_t index : plan_.units[unit].buckets) own_bucket(index);
    free(whole_of(unit));
  }
}

void ShardedWeights::own_bucket(std::size_t index) {
  const FusedBucket& bucket = buckets_[index];
  for (std::size_t place = 0; place < bucket.parameters.size(); ++place) {
    if (!is_watched(gradients_.parameter(bucket.parameters[place]))) continue;
    give_own_memory(index, place, bytes_at(bucket.weights, bucket.offsets[place]));
  }
}

bool ShardedWeights::is_moved(std::size_t bucket, std::size_t place) const {
  const at::Tensor& parameter = gradients_.parameter(buckets_[bucket].parameters[place]);
  return parameter.numel() != 0 && !is_watched(parameter);
}

void ShardedWeights::adopt(std::size_t index, std::size_t place) {
  const FusedBucket& bucket = buckets_[index];
  const at::Tensor& parameter = gradients_.parameter(bucket.parameters[place]);
  const std::int64_t offset = bucket.offsets[place];
  const Region own = own_part(index, place);
  if (own.begin < own.end) {
    states_[index]
        .shard.narrow(0, own.begin - bucket.own.begin, own.end - own.begin)
        .copy_(parameter.detach().reshape({-1}).slice(0, own.begin - offset, own.end - offset));
  }
  become(parameter, states_[index].absent[place]);
  if (copies_) copies_->round_again(bucket.parameters[place]);
}

}  // namespace lockstep
