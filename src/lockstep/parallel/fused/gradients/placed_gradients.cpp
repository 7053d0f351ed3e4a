#include "lockstep/parallel/fused/gradients/placed_gradients.h"

#include "lockstep/optim/update/gradient_memory.h"

namespace lockstep {

PlacedGradients::PlacedGradients(UpdateContext& context)
    : plan_(context.plan),
      gradients_(context.gradients),
      buckets_(context.buckets),
      memory_(*context.memory),
      watch_(*context.watch),
      parameters_(parameters_of(buckets_)),
      held_(gradients_.num_parameters(), 0) {}

void PlacedGradients::arrived(std::size_t parameter) {
  ++arrivals_;
  // Copied now, while it is in the cache.
  if (gradients_.take(parameter)) watch_.gradient_arrived(parameter);
}

bool PlacedGradients::starts_in_backward() const { return plan_.sources == UpdatePlan::Sources::Messages; }

std::shared_ptr<Work> PlacedGradients::start(std::size_t bucket) {
  const std::size_t index = position_of(buckets_, bucket);
  for (const std::size_t i : buckets_[index].parameters) {
    held_[i] = gradients_.take(i) ? 1 : 0;
    gradients_.take_off(i);
  }
  // As DistributedDataParallel without `fuse`: the bits of an average depend on where an engine divides.
  return memory_.begin_reduction(index, {ReduceOp::Avg});
}

void PlacedGradients::give_back(std::size_t parameter, const at::Tensor& late) {
  if (late.defined()) gradients_.place(parameter).add_(late);
  if (late.defined() || held_[parameter] != 0) gradients_.show(parameter);
  if (late.defined()) arrived(parameter);
}

void PlacedGradients::backward_ended(bool all_started) {
  summed_.reset();
  if (all_started) summed_ = versions();
}

void PlacedGradients::collect(std::vector<std::uint8_t>& contributed) {
  for (const std::size_t i : parameters_) contributed[i] = gradients_.take(i) ? 1 : 0;
}

void PlacedGradients::reduce(ReduceOp op, int) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) memory_.begin_reduction(i, {op});
}

void PlacedGradients::scale(std::size_t bucket, std::int64_t begin, std::int64_t end, double factor) {
  void* memory = buckets_[bucket].gradients.data_ptr();
  GradientSource source;
  source.sources = &memory;
  element_type_of(buckets_[bucket].gradients.scalar_type(), source.type);
  source.factor = factor;
  scale_in_place(source, static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
}

std::size_t PlacedGradients::end_update(const std::vector<std::uint8_t>& contributed) {
  summed_.reset();
  slice_sums_.reset();
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

void PlacedGradients::zero(bool is_done) {
  if (is_done) return;
  for (const FusedBucket& bucket : buckets_) bucket.gradients.zero_();
}

std::vector<std::size_t> PlacedGradients::without_slice_sum() const {
  if (!slice_sums_) return parameters_;
  std::vector<std::size_t> result;
  const std::vector<std::uint64_t> now = versions();  // arrivals, then one number for each parameter
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (now[i + 1] != (*slice_sums_)[i + 1] || now.front() != slice_sums_->front()) result.push_back(parameters_[i]);
  }
  return result;
}

// Values that change if a gradient does.
std::vector<std::uint64_t> PlacedGradients::versions() const {
  std::vector<std::uint64_t> result = {arrivals_};
  for (const std::size_t i : parameters_) {
    const at::Tensor& grad = gradients_.parameter(i).grad();
    result.push_back(gradients_.is_in_place(i) ? 2 + grad._version() : grad.defined() ? 1 : 0);
  }
  return result;
}

std::uint64_t PlacedGradients::writes() const {
  std::uint64_t count = arrivals_;
  for (const std::size_t i : parameters_) {
    const at::Tensor& grad = gradients_.parameter(i).grad();
    // Versions only increase; a gradient in other memory counts as new.
    if (grad.defined()) count += gradients_.is_in_place(i) ? grad._version() : std::uint64_t{1} << 32;
  }
  return count;
}

}  // namespace lockstep
