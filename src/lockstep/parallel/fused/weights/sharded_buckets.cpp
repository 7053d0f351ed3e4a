#include "lockstep/parallel/fused/weights/sharded_buckets.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "lockstep/base/random/mix_bits.h"

namespace lockstep {
namespace {

std::byte* bytes_at(const at::Tensor& memory, std::int64_t offset) {
  return static_cast<std::byte*>(memory.data_ptr()) + static_cast<std::size_t>(offset) * memory.element_size();
}

}  // namespace

void ShardedBuckets::make_memory(ReadWatcher& watcher, HostMemoryEngine* engine) {
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    const at::ScalarType dtype = parameter(index, 0).scalar_type();
    const std::int64_t numel = buckets_[index].gradients.numel();
    states_[index].memory =
        engine == nullptr
            ? std::make_unique<WatchedMemory>(watcher, index, numel, dtype)
            : std::make_unique<WatchedMemory>(watcher, index, engine->allocate_transient_for_host(numel, dtype, {}));
  }
}

void ShardedBuckets::share_out(WatchedParameters& watched, ReadWatcher& watcher, std::size_t first) {
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    FusedBucket& bucket = buckets_[index];
    Bucket& state = states_[index];
    bucket.weights = state.memory->whole();
    state.shard = at::zeros({bucket.own.end - bucket.own.begin}, bucket.weights.options());
    bytes_.add(static_cast<std::int64_t>(state.shard.nbytes()));
    state.samples.resize(bucket.parameters.size());
    for (std::size_t place = 0; place < bucket.parameters.size(); ++place) {
      state.views.push_back(state.memory->view(bucket.offsets[place], parameter(index, place)));
      state.absent.push_back(watched_without_memory(parameter(index, place)));
      adopt(index, place);
      watched.add(parameter(index, place), watcher, first + bucket.parameters[place]);
    }
  }
}

void* ShardedBuckets::owned_weights(std::size_t bucket) const {
  const at::Tensor& shard = states_[bucket].shard;
  const auto offset = static_cast<std::uintptr_t>(buckets_[bucket].own.begin) * shard.element_size();
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(shard.data_ptr()) - offset);
}

Region ShardedBuckets::own_part(std::size_t index, std::size_t place) const {
  const std::int64_t offset = buckets_[index].offsets[place];
  Region part = buckets_[index].own;
  part.begin = std::max(part.begin, offset);
  part.end = std::min(part.end, offset + parameter(index, place).numel());
  return part;
}

void ShardedBuckets::gather(std::size_t index, Communicator& group) {
  Bucket& bucket = states_[index];
  if (bucket.users++ > 0) return;
  bucket.memory->open();
  bytes_.add(static_cast<std::int64_t>(bucket.memory->whole().nbytes()));
  bucket.work = group.all_gather_async(bucket.memory->incoming(), bucket.shard);
}

void ShardedBuckets::wait(std::size_t index) {
  if (states_[index].work) std::exchange(states_[index].work, nullptr)->wait();
}

void ShardedBuckets::leave(std::size_t index) {
  Bucket& bucket = states_[index];
  if (--bucket.users > 0) return;
  bucket.memory->close();
  bytes_.take(static_cast<std::int64_t>(bucket.memory->whole().nbytes()));
}

void ShardedBuckets::show(std::size_t index, std::size_t place) {
  show(index, place, states_[index].views[place], states_[index].samples[place]);
}

void ShardedBuckets::show(std::size_t index, std::size_t place, const at::Tensor& view, WeightSample& sample) const {
  if (!is_absent(parameter(index, place))) return;
  become(parameter(index, place), view);
  sample.take(parameter(index, place));
}

void ShardedBuckets::hide(std::size_t index, std::size_t place, const ShownWeight& shown) const {
  const at::Tensor& weight = parameter(index, place);
  if (!is_watched(weight) || !has_become(weight, shown.view)) return;
  if (is_written(index, place, shown)) {
    give_own_memory(index, place, shown.elements);
  } else {
    become(weight, states_[index].absent[place]);
  }
}

ShownWeight ShardedBuckets::shown(std::size_t index, std::size_t place) const {
  const FusedBucket& bucket = buckets_[index];
  const Bucket& state = states_[index];
  return {state.views[place], state.samples[place], bytes_at(bucket.weights, bucket.offsets[place])};
}

bool ShardedBuckets::is_shown(std::size_t index, std::size_t place) const {
  return has_become(parameter(index, place), states_[index].views[place]);
}

// Autograd counts most writes; the owner of a part sees all writes to it.
bool ShardedBuckets::is_written(std::size_t index, std::size_t place, const ShownWeight& shown) const {
  const FusedBucket& bucket = buckets_[index];
  const at::Tensor& weight = parameter(index, place);
  if (weight.numel() == 0) return false;
  if (shown.sample.has_new_version(weight) || shown.sample.has_new_elements(weight)) return true;
  const Region own = own_part(index, place);
  if (own.begin >= own.end) return false;
  const std::size_t size = weight.element_size();
  return std::memcmp(shown.elements + static_cast<std::size_t>(own.begin - bucket.offsets[place]) * size,
                     bytes_at(states_[index].shard, own.begin - bucket.own.begin),
                     static_cast<std::size_t>(own.end - own.begin) * size) != 0;
}

bool ShardedBuckets::is_moved(std::size_t index, std::size_t place) const {
  const at::Tensor& weight = parameter(index, place);
  return weight.numel() != 0 && !is_watched(weight);
}

std::int64_t ShardedBuckets::moved_parameters() const {
  std::uint64_t digest = 0;
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    for (std::size_t place = 0; place < buckets_[index].parameters.size(); ++place) {
      if (is_moved(index, place)) digest = mix_bits(digest + buckets_[index].parameters[place] + 1);
    }
  }
  return static_cast<std::int64_t>(digest);
}

void ShardedBuckets::adopt(std::size_t index, std::size_t place) {
  const FusedBucket& bucket = buckets_[index];
  const at::Tensor& weight = parameter(index, place);
  const std::int64_t offset = bucket.offsets[place];
  const Region own = own_part(index, place);
  if (own.begin < own.end) {
    states_[index]
        .shard.narrow(0, own.begin - bucket.own.begin, own.end - own.begin)
        .copy_(weight.detach().reshape({-1}).slice(0, own.begin - offset, own.end - offset));
  }
  become(weight, states_[index].absent[place]);
}

void ShardedBuckets::give_own_memory(std::size_t index, std::size_t place, const std::byte* elements) const {
  const at::Tensor& weight = parameter(index, place);
  const at::AutoDispatchBelowADInplaceOrView untracked;
  const at::Tensor own = at::empty(weight.sizes(), buckets_[index].weights.options());
  std::memcpy(own.data_ptr(), elements, own.nbytes());
  become(weight, own);
}

void ShardedBuckets::give_own_memory(std::size_t index) const {
  const FusedBucket& bucket = buckets_[index];
  for (std::size_t place = 0; place < bucket.parameters.size(); ++place) {
    if (!is_watched(parameter(index, place))) continue;
    give_own_memory(index, place, bytes_at(bucket.weights, bucket.offsets[place]));
  }
}

}  // namespace lockstep
