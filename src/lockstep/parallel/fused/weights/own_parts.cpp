// ShardedWeights: what this rank keeps, to be saved and loaded without gathering.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "lockstep/parallel/fused/weights/sharded_weights.h"

namespace lockstep {

// These elements of the parameter, which are this rank's. Nothing is freed, because the other ranks may keep what is
// gathered, and all ranks must gather alike. The result has memory of its own if the program has written to a gathered
// weight, whose memory is freed sooner.
at::Tensor ShardedWeights::own_values(std::size_t index, std::size_t place, std::int64_t begin,
                                      std::int64_t end) const {
  const at::Tensor& parameter = gradients_.parameter(buckets_[index].parameters[place]);
  const std::int64_t count = std::max<std::int64_t>(0, end - begin);
  if (is_moved(index, place)) return parameter.detach().reshape({-1}).slice(0, begin, begin + count);
  const Region& own = buckets_[index].own;
  const std::int64_t first = count > 0 ? begin + buckets_[index].offsets[place] - own.begin : 0;
  const at::Tensor values = states_[index].shard.narrow(0, first, count);
  if (count == 0 || is_absent(parameter) || !is_written(index, place, shown(index, place))) return values;
  const at::Tensor written = at::empty_like(values);
  const auto offset = static_cast<std::size_t>(begin) * values.element_size();
  std::memcpy(written.data_ptr(), shown(index, place).elements + offset, written.nbytes());
  return written;
}

TensorParts ShardedWeights::own_parts() {
  const at::NoGradGuard no_grad;
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
      part.tensor = own_values(index, place, part.begin, part.end);
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
  for (const FusedBucket& bucket : buckets_) {
    for (const std::size_t parameter : bucket.parameters) {
      // A backward that has saved the old values must notice.
      gradients_.parameter(parameter).unsafeGetTensorImpl()->bump_version();
      if (copies_) copies_->round_again(parameter);
    }
  }
}

}  // namespace lockstep
