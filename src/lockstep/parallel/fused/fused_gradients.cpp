#include "lockstep/parallel/fused/fused_gradients.h"

#include <algorithm>

namespace lockstep {

FusedGradients::FusedGradients(const UpdatePlan& plan, GradientBuckets& gradients,
                               const std::vector<FusedBucket>& buckets, FusedMemory& memory, FusedWatch& watch)
    : plan_(plan), gradients_(gradients), buckets_(buckets), memory_(memory), watch_(watch) {
  for (const FusedBucket& bucket : buckets) {
    parameters_.insert(parameters_.end(), bucket.parameters.begin(), bucket.parameters.end());
  }
  std::sort(parameters_.begin(), parameters_.end());
}

void FusedGradients::gradient_arrived(std::size_t parameter) {
  ++arrivals_;
  // Copied now, while it is in the cache.
  if (gradients_.take(parameter)) watch_.gradient_arrived(parameter);
}

bool FusedGradients::starts_in_backward() const { return plan_.sources == UpdatePlan::Sources::Messages; }

std::shared_ptr<Work> FusedGradients::start(std::size_t bucket) {
  const auto found =
      std::find_if(buckets_.begin(), buckets_.end(), [&](const FusedBucket& fused) { return fused.index == bucket; });
  // As DistributedDataParallel without `fuse`: the bits of an average depend on where an engine divides.
  return memory_.begin_reduction(static_cast<std::size_t>(found - buckets_.begin()), ReduceOp::Avg);
}

void FusedGradients::backward_ended(bool all_started) {
  summed_.reset();
  if (all_started) summed_ = versions();
}

void FusedGradients::collect(std::vector<std::uint8_t>& contributed) {
  for (const std::size_t i : parameters_) contributed[i] = gradients_.take(i) ? 1 : 0;
}

std::size_t FusedGradients::end_update(const std::vector<std::uint8_t>& contributed) {
  summed_.reset();
  shard_sums_.reset();
  std::size_t unused = 0;
  for (const std::size_t i : parameters_) {
    if (contributed[i] != 0) {
      gradients_.show(i);
    } else {
      ++unused;
    }
  }
  return unused;
}

std::vector<std::size_t> FusedGradients::without_shard_sum() const {
  if (!shard_sums_) return parameters_;
  std::vector<std::size_t> result;
  const std::vector<std::uint64_t> now = versions();  // arrivals, then one number for each parameter
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (now[i + 1] != (*shard_sums_)[i + 1] || now.front() != shard_sums_->front()) result.push_back(parameters_[i]);
  }
  return result;
}

// Values that change if a gradient does.
std::vector<std::uint64_t> FusedGradients::versions() const {
  std::vector<std::uint64_t> result = {arrivals_};
  for (const std::size_t i : parameters_) {
    const at::Tensor& grad = gradients_.parameter(i).grad();
    result.push_back(gradients_.is_in_place(i) ? 2 + grad._version() : grad.defined() ? 1 : 0);
  }
  return result;
}

std::uint64_t FusedGradients::writes() const {
  std::uint64_t count = arrivals_;
  for (const std::size_t i : parameters_) {
    const at::Tensor& grad = gradients_.parameter(i).grad();
    // Versions only increase; a gradient in other memory counts as new.
    if (grad.defined()) count += gradients_.is_in_place(i) ? grad._version() : std::uint64_t{1} << 32;
  }
  return count;
}

}  // namespace lockstep
