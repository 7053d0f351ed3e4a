#include "lockstep/parallel/backward/bucket_queue.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "lockstep/base/seconds_since.h"
#include "lockstep/tensor/tensors_of.h"

namespace lockstep {

BucketQueue::BucketQueue(const std::vector<NamedTensor>& parameters, BackwardContext& context,
                         const GradientBuckets::Options& options)
    : context_(context),
      buckets_(parameters, context.communicator, options),
      shared_(context.communicator.get(), tensors_of(parameters)),
      parameters_(buckets_.num_parameters()),
      progress_(buckets_.size()) {}

void BucketQueue::hand_over(const std::vector<std::size_t>& buckets, GradientKeeper& keeper) {
  keeper_ = &keeper;
  context_.all_kept = !buckets.empty() && buckets.size() == progress_.size();
  for (const std::size_t index : buckets) {
    progress_[index].is_kept = true;
    for (const std::size_t i : buckets_[index].parameters) shared_.keep(i, true);
  }
}

void BucketQueue::take_back() {
  for (BucketProgress& bucket : progress_) bucket.is_kept = false;
  for (std::size_t i = 0; i < parameters_.size(); ++i) shared_.keep(i, false);
  context_.all_kept = false;
  keeper_ = &nobody_;
}

void BucketQueue::begin(const std::weak_ptr<void>& backward) {
  next_launch_ = 0;
  has_sent_ = false;
  std::fill(parameters_.begin(), parameters_.end(), ParameterState());
  for (std::size_t i = 0; i < progress_.size(); ++i) {
    progress_[i].pending = buckets_[i].parameters.size();
    progress_[i].launched = false;
    progress_[i].work.reset();
  }
  shared_.take_all(backward);
}

void BucketQueue::begin_without_inputs() {
  next_launch_ = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    buckets_.take_off(i);
    parameters_[i].late.reset();
  }
  for (std::size_t i = 0; i < progress_.size(); ++i) {
    if (progress_[i].is_kept) continue;
    buckets_[i].contents.buffer.zero_();
    progress_[i].pending = 0;
    progress_[i].launched = false;
  }
}

void BucketQueue::tell_keeper(std::size_t parameter) {
  const BucketProgress& bucket = progress_[buckets_.bucket_of(parameter)];
  if (bucket.is_kept && !bucket.launched) keeper_->arrived(parameter);
}

bool BucketQueue::take(std::size_t parameter) {
  const std::size_t index = buckets_.bucket_of(parameter);
  if (!leaves_in_backward(index)) return false;
  const BucketProgress& bucket = progress_[index];
  if (bucket.launched) {
    keep_late(parameter);
    return false;
  }
  if (parameters_[parameter].ready) {
    // A second part: already added, perhaps in other memory.
    if (!bucket.is_kept && buckets_.take(parameter)) context_.flags.set_contributed(parameter);
    return false;
  }
  mark_ready(parameter);
  return true;
}

bool BucketQueue::pass_by(std::size_t parameter) {
  if (parameters_[parameter].ready) return false;
  mark_ready(parameter);
  return true;
}

void BucketQueue::mark_ready(std::size_t parameter) {
  if (is_elsewhere(parameter)) {
    buckets_.clear(parameter);
  } else if (!is_kept(parameter) && buckets_.take(parameter)) {
    context_.flags.set_contributed(parameter);
  }
  parameters_[parameter].ready = true;
  const std::size_t bucket = buckets_.bucket_of(parameter);
  if (--progress_[bucket].pending == 0) context_.trace->ready(bucket);
}

void BucketQueue::keep_late(std::size_t parameter) {
  // `launch` removed the gradient from the parameter, so this one holds only the late contribution.
  const at::NoGradGuard no_grad;
  const at::Tensor grad = buckets_.take_off(parameter);
  if (!grad.defined()) return;
  at::Tensor& late = parameters_[parameter].late;
  late = late.defined() ? late.add(grad) : grad;
}

void BucketQueue::complete() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!leaves(i)) continue;
    if (!parameters_[i].ready) mark_ready(i);
    if (parameters_[i].late.defined()) context_.flags.set_late(i);
  }
}

void BucketQueue::launch_ready(bool at_end) {
  // The last bucket carries the flags, which are complete only at the end: `launch_last`.
  for (; next_launch_ + 1 < progress_.size(); ++next_launch_) {
    if (!leaves_in_backward(next_launch_)) continue;
    if (progress_[next_launch_].pending != 0) return;
    if (!at_end && progress_[next_launch_].is_kept && !keeper_->can_start(next_launch_)) return;
    launch(next_launch_);
  }
}

void BucketQueue::launch(std::size_t index) {
  BucketProgress& bucket = progress_[index];
  if (bucket.is_kept) {
    bucket.work = keeper_->start(index);
    context_.trace->launch(index);
  } else {
    for (const std::size_t i : buckets_[index].parameters) {
      if (!is_elsewhere(i)) buckets_.take_off(i);
    }
    context_.trace->launch(index);
    bucket.work = context_.reduction->start(buckets_, index, op());
  }
  bucket.launched = true;
  has_sent_ = true;
}

at::Tensor BucketQueue::place_of_flags() const {
  if (!context_.reduction->carries_flags() || progress_.empty() || progress_.back().is_kept) return {};
  return buckets_[progress_.size() - 1].tail;
}

void BucketQueue::launch_last() {
  if (!progress_.empty() && leaves_in_backward(progress_.size() - 1)) launch(progress_.size() - 1);
}

void BucketQueue::wait() {
  const auto start = std::chrono::steady_clock::now();
  StepStatistics& statistics = context_.statistics;
  double busy_s = 0;
  const auto wait_for = [&](std::size_t index) {
    BucketProgress& bucket = progress_[index];
    if (!bucket.work) return;
    context_.trace->wait(index, *bucket.work);
    busy_s += std::exchange(bucket.work, nullptr)->seconds();
  };
  for (std::size_t i = 0; i < progress_.size(); ++i) {
    if (!leaves_in_backward(i)) continue;
    wait_for(i);
    progress_[i].work = context_.reduction->start_second(buckets_.for_hook(i));
    if (!progress_[i].work) context_.reduction->finish(buckets_.for_hook(i));
  }
  for (std::size_t i = 0; i < progress_.size(); ++i) {
    if (!leaves_in_backward(i)) continue;
    if (progress_[i].work) {
      wait_for(i);
      context_.reduction->finish(buckets_.for_hook(i));
    }
    context_.trace->end_bucket(i, buckets_[i].contents.buffer);
    statistics.bytes += static_cast<std::int64_t>(buckets_[i].contents.buffer.nbytes());
    ++statistics.buckets;
  }
  statistics.waited_for_slot_s = keeper_->take_waited_s();
  statistics.waited_s = seconds_since(start) + statistics.waited_for_slot_s;
  statistics.overlapped_s = std::max(0.0, busy_s - statistics.waited_s);
}

void BucketQueue::reduce_late() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!context_.flags.late(i) || is_kept(i)) continue;
    const at::Tensor& place = buckets_.place(i);
    at::Tensor late = parameters_[i].late.defined() ? parameters_[i].late.contiguous() : at::zeros_like(place);
    if (context_.reduction->synchronizes()) context_.communicator->all_reduce(late, op());
    place.add_(late);
    ++context_.statistics.late_gradients;
  }
}

void BucketQueue::divide(int divisor) {
  for (std::size_t i = 0; i < progress_.size(); ++i) {
    if (!progress_[i].is_kept) buckets_[i].contents.buffer.div_(divisor);
  }
}

bool BucketQueue::restore() {
  bool is_any_missing = false;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (is_kept(i)) {
      is_any_missing = is_any_missing || parameters_[i].late.defined();
      if (!progress_[buckets_.bucket_of(i)].launched) continue;
      const at::Tensor late = std::exchange(parameters_[i].late, at::Tensor());
      if (late.defined()) ++context_.statistics.late_gradients;
      keeper_->give_back(i, late);
      continue;
    }
    parameters_[i].late.reset();
    if (context_.flags.contributed(i)) {
      buckets_.show(i);
    } else {
      ++context_.statistics.unused_parameters;
    }
  }
  return is_any_missing;
}

void BucketQueue::end(bool is_any_missing) {
  for (BucketProgress& bucket : progress_) bucket.launched = false;
  // A late gradient is missing from the sums on all ranks.
  keeper_->backward_ended(keeper_->starts_in_backward() && !context_.join.is_on() && !is_any_missing);
}

}  // namespace lockstep
