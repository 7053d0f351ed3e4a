// Reducer: the end of backward, which reduces the remaining buckets and gives parameters their gradients.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "lockstep/base/seconds_since.h"
#include "lockstep/base/text/count_of.h"
#include "lockstep/parallel/agreement/weights_agreement.h"
#include "lockstep/parallel/end_group.h"
#include "lockstep/parallel/reducer/left_out_batches.h"
#include "lockstep/parallel/reducer/reducer.h"
#include "lockstep/parallel/wrapped_module.h"

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
    if (parameters_[i].late.defined()) flags_.set_late(i);
  }
  meet("a backward", [this] {
    reduce_buckets();
    restore_gradients();
    average_sparse(true);
  });
  backward_ = Backward::None;
  ran_ = true;
  if (is_plain_call() && !(join_.is_on() && !follows_)) at_end_();
  was_announced_ = false;
  trace_->end_backward();
}

void Reducer::check_static_graph() {
  const auto missing = graph_.end_backward(fired_);
  if (!missing) return;
  end_group(*communicator_,
            fmt::format("static_graph is set, but parameter \"{}\" got no gradient, which it got in the first step",
                        buckets_.name(*missing)),
            "leave static_graph off where the graph changes between steps");
}

// From the buckets that still wait for others to the averages of all.
void Reducer::reduce_buckets() {
  launch_ready_buckets(true);
  statistics_ = StepStatistics();
  launch_last_bucket();
  wait_for_buckets();
  if (all_left()) return;
  exchange_flags();
  check_same_module();
  if (flags_.frozen_differs()) frozen_.throw_difference(*communicator_, active_ranks());
  check_left_out();
  check_put_aside();
  check_moved_parameters();
  if (!join_.is_on() && reduction_->allows_join()) replica_watch_.compare(*communicator_, flags_.differing_bits());
  if (flags_.any_late()) reduce_late_gradients();
  if (join_.divides_by_active_ranks()) scale_by_active_ranks();
}

// The last bucket carries the flags, so it leaves when they are known.
void Reducer::launch_last_bucket() {
  if (!all_left()) {
    flags_.set_module(module_);
    flags_.set_left_out(*unused_forwards_ - unused_before_);
    if (!flags_.joined(communicator_->rank())) flags_.set_frozen(frozen_.number());
    const std::uint32_t bits = replica_watch_.look();
    if (!join_.is_on()) flags_.set_bits(bits);  // a rank without inputs has older weights
  }
  if (flags_in_bucket()) flags_.write(buckets_[progress_.size() - 1].tail);
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
    progress_[i].work = reduction_->start_second(buckets_.for_hook(i));
    if (!progress_[i].work) reduction_->finish(buckets_.for_hook(i));
  }
  for (std::size_t i = 0; i < progress_.size(); ++i) {
    if (!leaves_in_backward(i)) continue;
    if (progress_[i].work) {
      wait_for(i);
      reduction_->finish(buckets_.for_hook(i));
    }
    trace_->end_bucket(i, buckets_[i].contents.buffer);
    statistics_.bytes += static_cast<std::int64_t>(buckets_[i].contents.buffer.nbytes());
    ++statistics_.buckets;
  }
  if (later_ != nullptr) statistics_.waited_for_slot_s = later_->take_waited_s();
  statistics_.waited_s = seconds_since(start) + statistics_.waited_for_slot_s;
  statistics_.overlapped_s = std::max(0.0, busy_s - statistics_.waited_s);
}

void Reducer::exchange_flags() {
  if (flags_in_bucket()) {
    flags_.read(buckets_[progress_.size() - 1].tail);
  } else if (reduction_->synchronizes()) {
    send_flags();  // a hook may round or drop its data, so the flags are sent separately
  }
  int lowest = 0;
  while (lowest + 1 < communicator_->world_size() && flags_.joined(lowest)) ++lowest;
  join_.set_lowest_active_rank(lowest);
}

void Reducer::send_flags() {
  at::Tensor flags = at::empty({flags_.numel()}, at::TensorOptions().dtype(at::kFloat));
  flags_.write(flags);
  communicator_->all_reduce(flags);
  flags_.read(flags);
}

void Reducer::check_same_module() {
  if (reduction_->synchronizes() && flags_.modules_differ()) throw_different_modules(*communicator_, module_);
}

void Reducer::check_left_out() {
  const std::uint64_t unused = *unused_forwards_;
  const std::uint64_t here = unused - std::exchange(unused_before_, unused);
  if (!reduction_->synchronizes() || !flags_.left_out_differs() || std::exchange(has_warned_, true)) return;
  warn_of_left_out_batches(*communicator_,
                           "made " + count_of(here, "forward") + " without a backward since the last backward",
                           active_ranks());
}

std::vector<bool> Reducer::active_ranks() const {
  std::vector<bool> active;
  for (int rank = 0; rank < communicator_->world_size(); ++rank) active.push_back(!flags_.joined(rank));
  return active;
}

// Every rank must load the same weights. Not checked while ranks join, because finished ranks have older weights.
void Reducer::check_moved_parameters() {
  if (join_.is_on() || !flags_.moved() || !reduction_->synchronizes()) return;
  moved_ = false;
  check_equal_weights(*communicator_, buckets_.parameters());
}

void Reducer::reduce_late_gradients() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!flags_.late(i) || is_left(i)) continue;
    const at::Tensor& place = buckets_.place(i);
    at::Tensor late = parameters_[i].late.defined() ? parameters_[i].late.contiguous() : at::zeros_like(place);
    if (reduction_->synchronizes()) communicator_->all_reduce(late, reduce_op());
    place.add_(late);
    ++statistics_.late_gradients;
  }
}

void Reducer::scale_by_active_ranks() {
  int active = 0;
  for (int rank = 0; rank < communicator_->world_size(); ++rank) active += flags_.joined(rank) ? 0 : 1;
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
    if (flags_.contributed(i)) {
      buckets_.show(i);
    } else {
      ++statistics_.unused_parameters;
    }
  }
  add_put_aside();
  for (auto& bucket : progress_) bucket.launched = false;
  // A late gradient is missing from the sums on all ranks.
  if (later_ != nullptr) {
    later_->backward_ended(later_->starts_in_backward() && !join_.is_on() && !any_late_for_later);
  }
}

void Reducer::give_back_to_later(std::size_t index) {
  const at::Tensor late = std::exchange(parameters_[index].late, at::Tensor());
  if (late.defined()) ++statistics_.late_gradients;
  later_->give_back(index, late);
}

void Reducer::average_sparse(bool has_inputs) {
  if (!reduction_->synchronizes()) return;
  statistics_.bytes += sparse_.average({has_inputs, join_.is_on(), join_.divides_by_active_ranks()});
}

bool Reducer::shadow_backward() {
  const at::NoGradGuard no_grad;
  const std::lock_guard<std::mutex> lock(mutex_);
  unused_before_ = *unused_forwards_;
  sparse_.drop();
  if (all_left()) {
    average_sparse(false);
    return false;
  }
  flags_.clear();
  flags_.set_joined(communicator_->rank());
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
  average_sparse(false);
  const int last = communicator_->world_size() - 1;
  return flags_.joined(last) && join_.lowest_active_rank() == last;
}

}  // namespace lockstep
