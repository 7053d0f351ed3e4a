// Reducer: the end of backward, which reduces the remaining buckets and gives parameters their gradients.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "lockstep/base/seconds_since.h"
#include "lockstep/parallel/end_group.h"
#include "lockstep/parallel/reducer/reducer.h"

namespace lockstep {

void Reducer::finish_backward() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!in_backward()) return;
  if (backward_ == Backward::Begun) {  // it did not reach the parameters: torch::autograd::grad of the inputs, perhaps
    backward_ = Backward::None;
    return;
  }
  const at::NoGradGuard no_grad;
  check_static_graph();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!leaves_in_backward(buckets_.bucket_of(i))) continue;
    if (!parameters_[i].ready) mark_ready(i);
    if (parameters_[i].late.defined()) context_.flags.set_late(i);
  }
  meet("a backward", [this] {
    reduce_buckets();
    restore_gradients();
    meet_parts(true);
  });
  backward_ = Backward::None;
  ran_ = true;
  if (is_plain_call() && !(context_.join.is_on() && !follows_)) at_end_();
  was_announced_ = false;
  trace_->end_backward();
}

void Reducer::check_static_graph() {
  const auto missing = graph_.end_backward(fired_);
  if (!missing) return;
  end_group(*context_.communicator,
            fmt::format("static_graph is set, but parameter \"{}\" got no gradient, which it got in the first step",
                        buckets_.name(*missing)),
            "leave static_graph off where the graph changes between steps");
}

// From the buckets that still wait for others to the averages of all.
void Reducer::reduce_buckets() {
  launch_ready_buckets(true);
  context_.statistics = StepStatistics();
  launch_last_bucket();
  wait_for_buckets();
  if (all_left()) return;
  exchange_flags();
  for (const auto& part : parts_) part->check(context_.flags);
  if (context_.flags.any_late()) reduce_late_gradients();
  if (context_.join.divides_by_active_ranks()) scale_by_active_ranks();
}

// The last bucket carries the flags, so it leaves when they are known.
void Reducer::launch_last_bucket() {
  if (!all_left()) {
    for (const auto& part : parts_) part->ends(context_.flags);
  }
  if (flags_in_bucket()) context_.flags.write(buckets_[progress_.size() - 1].tail);
  if (!progress_.empty() && leaves_in_backward(progress_.size() - 1)) launch(progress_.size() - 1);
}

// Waits for the exchanges of all buckets, and for a hook's second ones.
void Reducer::wait_for_buckets() {
  const auto start = std::chrono::steady_clock::now();
  double busy_s = 0;
  const auto wait_for = [&](std::size_t index) {
    BucketProgress& bucket = progress_[index];
    if (!bucket.work) return;
    trace_->wait(index, *bucket.work);
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
    trace_->end_bucket(i, buckets_[i].contents.buffer);
    context_.statistics.bytes += static_cast<std::int64_t>(buckets_[i].contents.buffer.nbytes());
    ++context_.statistics.buckets;
  }
  if (later_ != nullptr) context_.statistics.waited_for_slot_s = later_->take_waited_s();
  context_.statistics.waited_s = seconds_since(start) + context_.statistics.waited_for_slot_s;
  context_.statistics.overlapped_s = std::max(0.0, busy_s - context_.statistics.waited_s);
}

void Reducer::exchange_flags() {
  if (flags_in_bucket()) {
    context_.flags.read(buckets_[progress_.size() - 1].tail);
  } else if (context_.reduction->synchronizes()) {
    send_flags();  // a hook may round or drop its data, so the flags are sent separately
  }
  int lowest = 0;
  while (lowest + 1 < context_.communicator->world_size() && context_.flags.joined(lowest)) ++lowest;
  context_.join.set_lowest_active_rank(lowest);
}

void Reducer::send_flags() {
  at::Tensor flags = at::empty({context_.flags.numel()}, at::TensorOptions().dtype(at::kFloat));
  context_.flags.write(flags);
  context_.communicator->all_reduce(flags);
  context_.flags.read(flags);
}

void Reducer::reduce_late_gradients() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!context_.flags.late(i) || is_left(i)) continue;
    const at::Tensor& place = buckets_.place(i);
    at::Tensor late = parameters_[i].late.defined() ? parameters_[i].late.contiguous() : at::zeros_like(place);
    if (context_.reduction->synchronizes()) context_.communicator->all_reduce(late, reduce_op());
    place.add_(late);
    ++context_.statistics.late_gradients;
  }
}

void Reducer::scale_by_active_ranks() {
  int active = 0;
  for (int rank = 0; rank < context_.communicator->world_size(); ++rank) active += context_.flags.joined(rank) ? 0 : 1;
  if (active == 0) return;
  for (std::size_t i = 0; i < progress_.size(); ++i) {
    if (!progress_[i].is_left) buckets_[i].contents.buffer.div_(active);
  }
}

void Reducer::restore_gradients() {
  bool any_late_for_later = false;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (is_left(i)) {
      any_late_for_later = any_late_for_later || parameters_[i].late.defined();
      if (progress_[buckets_.bucket_of(i)].launched) give_back_to_later(i);
      continue;
    }
    parameters_[i].late.reset();
    if (context_.flags.contributed(i)) {
      buckets_.show(i);
    } else {
      ++context_.statistics.unused_parameters;
    }
  }
  for (const auto& part : parts_) part->restored();
  for (auto& bucket : progress_) bucket.launched = false;
  // A late gradient is missing from the sums on all ranks.
  if (later_ != nullptr) {
    later_->backward_ended(later_->starts_in_backward() && !context_.join.is_on() && !any_late_for_later);
  }
}

void Reducer::give_back_to_later(std::size_t index) {
  const at::Tensor late = std::exchange(parameters_[index].late, at::Tensor());
  if (late.defined()) ++context_.statistics.late_gradients;
  later_->give_back(index, late);
}

void Reducer::meet_parts(bool has_inputs) {
  if (!context_.reduction->synchronizes()) return;
  for (const auto& part : parts_) part->meets(has_inputs);
}

bool Reducer::shadow_backward() {
  const at::NoGradGuard no_grad;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& part : parts_) part->joins();
  if (all_left()) {
    meet_parts(false);
    return false;
  }
  context_.flags.clear();
  context_.flags.set_joined(context_.communicator->rank());
  next_launch_ = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    buckets_.take_off(i);
    parameters_[i].late.reset();
  }
  for (std::size_t i = 0; i < progress_.size(); ++i) {
    if (progress_[i].is_left) continue;
    buckets_[i].contents.buffer.zero_();
    progress_[i].pending = 0;
    progress_[i].launched = false;
  }
  reduce_buckets();
  meet_parts(false);
  const int last = context_.communicator->world_size() - 1;
  return context_.flags.joined(last) && context_.join.lowest_active_rank() == last;
}

}  // namespace lockstep
