// ShardedWeights: what this rank keeps, to be saved and loaded without gathering.
#include <ATen/core/grad_mode.h>

#include "lockstep/parallel/fused/weights/sharded_weights.h"

namespace lockstep {

TensorParts ShardedWeights::own_parts() {
  const at::NoGradGuard no_grad;
  free_all();  // finds what was written
  TensorParts parts;
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    const FusedBucket& bucket = buckets_[index];
    for (std::size_t place = 0; place < bucket.parameters.size(); ++place) {
      const at::Tensor& parameter = gradients_.parameter(bucket.parameters[place]);
      TensorPart part{gradients_.name(bucket.parameters[place]), parameter.sizes().vec(), 0, 0, {}};
      const Region own = own_part(index, place);
      if (own.begin < own.end) {
        part.begin = own.begin - bucket.offsets[place];
        part.end = own.end - bucket.offsets[place];
      }
      const std::int64_t first = part.end > part.begin ? own.begin - bucket.own.begin : 0;
      part.tensor = is_moved(index, place) ? parameter.detach().reshape({-1}).slice(0, part.begin, part.end)
                                           : states_[index].shard.narrow(0, first, part.end - part.begin);
      parts.push_back(std::move(part));
    }
  }
  return parts;
}

void ShardedWeights::write_own_parts(const std::function<void(const TensorParts&)>& write) {
  const at::NoGradGuard no_grad;
  free_all();
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    for (std::size_t place = 0; place < buckets_[index].parameters.size(); ++place) {
      if (is_moved(index, place)) adopt(index, place);
    }
  }
  write(own_parts());
  if (!copies_) return;
  for (const FusedBucket& bucket : buckets_) {
    for (const std::size_t parameter : bucket.parameters) copies_->round_again(parameter);
  }
}

}  // namespace lockstep
