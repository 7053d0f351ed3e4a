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

void ShardedWeights::show(std::size_t index) {
  Bucket& state = states_[index];
  for (std::size_t place = 0; place < state.views.size(); ++place) {
    const at::Tensor& parameter = gradients_.parameter(buckets_[index].parameters[place]);
    if (!is_watched(parameter)) continue;
    become(parameter, state.views[place]);
    state.samples[place].take(parameter);
  }
}

void ShardedWeights::close(std::size_t index) {
  Bucket& state = states_[index];
  const FusedBucket& bucket = buckets_[index];
  for (std::size_t place = 0; place < state.views.size(); ++place) {
    const at::Tensor& parameter = gradients_.parameter(bucket.parameters[place]);
    if (!is_watched(parameter)) continue;
    if (is_written(index, place)) {
      give_own_memory(index, place);
    } else {
      become(parameter, state.absent[place]);
    }
  }
  state.memory->close();
  bytes_ -= static_cast<std::int64_t>(state.memory->whole().nbytes());
}

// The elements of the bucket that are this rank's and of that parameter. None if `begin` is not below `end`.
Region ShardedWeights::own_part(std::size_t index, std::size_t place) const {
  const FusedBucket& bucket = buckets_[index];
  const std::int64_t offset = bucket.offsets[place];
  Region part = bucket.own;
  part.begin = std::max(part.begin, offset);
  part.end = std::min(part.end, offset + gradients_.parameter(bucket.parameters[place]).numel());
  return part;
}

// Autograd counts most writes; the owner of a part sees all writes to it.
bool ShardedWeights::is_written(std::size_t index, std::size_t place) const {
  const Bucket& state = states_[index];
  const FusedBucket& bucket = buckets_[index];
  const at::Tensor& parameter = gradients_.parameter(bucket.parameters[place]);
  const WeightSample& sample = state.samples[place];
  if (parameter.numel() == 0) return false;
  if (sample.has_new_version(parameter) || sample.has_new_elements(parameter)) return true;
  const Region own = own_part(index, place);
  if (own.begin >= own.end) return false;
  const std::size_t bytes = static_cast<std::size_t>(own.end - own.begin) * parameter.element_size();
  return std::memcmp(bytes_at(bucket.weights, own.begin), bytes_at(state.shard, own.begin - bucket.own.begin), bytes) !=
         0;
}

// The parameter is then as after torch::load: the next step takes its values over.
void ShardedWeights::give_own_memory(std::size_t index, std::size_t place) {
  const FusedBucket& bucket = buckets_[index];
  const at::Tensor& parameter = gradients_.parameter(bucket.parameters[place]);
  const at::AutoDispatchBelowADInplaceOrView untracked;
  const at::Tensor own = at::empty(parameter.sizes(), bucket.weights.options());
  std::memcpy(own.data_ptr(), bytes_at(bucket.weights, bucket.offsets[place]), own.nbytes());
  become(parameter, own);
}

// One unit after the other, so that there are never two copies of everything.
void ShardedWeights::give_back() {
  free_all();
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    start(unit);
    finish(unit);
    for (const std::size_t index : plan_.units[unit].buckets) own_bucket(index);
    free(unit);
  }
}

void ShardedWeights::own_bucket(std::size_t index) {
  for (std::size_t place = 0; place < buckets_[index].parameters.size(); ++place) {
    if (is_watched(gradients_.parameter(buckets_[index].parameters[place]))) give_own_memory(index, place);
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
}

}  // namespace lockstep
