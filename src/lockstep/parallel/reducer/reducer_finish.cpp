// Reducer: the end of backward, which reduces the remaining buckets and gives parameters their gradients.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/seconds_since.h"
#include "lockstep/parallel/agreement/weights_agreement.h"
#include "lockstep/parallel/reducer/reducer.h"
#include "lockstep/parallel/uneven_inputs.h"

namespace lockstep {
namespace {}  // namespace

void Reducer::finish_backward() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!in_backward_) return;
  if (!any_fired_) {  // backward did not reach the parameters, for example torch::autograd::grad of the inputs
    in_backward_ = false;
    return;
  }
  const at::NoGradGuard no_grad;
  learn_static_graph();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!leaves_in_backward(buckets_[parameters_[i].bucket])) continue;
    if (!parameters_[i].ready) mark_ready(i);
    if (parameters_[i].late.defined()) flags_.set_late(i);
  }
  advise_on_uneven_inputs([this] {
    launch_ready_buckets();
    wait_for_buckets();
    restore_gradients();
    average_sparse(true);
  });
  in_backward_ = false;
  ran_ = true;
  if (at_end_) at_end_();
}

void Reducer::learn_static_graph() {
  if (!static_graph_) return;
  for (auto& parameter : parameters_) {
    if (!graph_learned_) {
      parameter.expected = parameter.fired;
    } else if (parameter.expected && !parameter.fired) {
      fail(fmt::format("static_graph is set, but parameter \"{}\" got no gradient, which it got in the first step",
                       parameter.name),
           "leave static_graph off where the graph changes between steps");
    }
  }
  graph_learned_ = true;
}

void Reducer::wait_for_buckets() {
  statistics_ = StepStatistics();
  if (flags_in_bucket()) flags_.write(flags_memory());
  if (!buckets_.empty() && leaves_in_backward(buckets_.back())) launch(buckets_.back());
  const auto start = Clock::now();
  double busy_s = 0;
  const auto wait_for = [&](BucketState& bucket) {
    if (!bucket.work) return;
    bucket.work->wait();
    busy_s += std::exchange(bucket.work, nullptr)->seconds();
  };
  for (auto& bucket : buckets_) {
    if (!leaves_in_backward(bucket)) continue;
    wait_for(bucket);
    if (hook_) bucket.work = hook_->start_second(bucket.gradients, *communicator_);
    if (hook_ && !bucket.work) hook_->finish(bucket.gradients, *communicator_);
  }
  for (auto& bucket : buckets_) {
    if (!leaves_in_backward(bucket)) continue;
    if (bucket.work) {
      wait_for(bucket);
      hook_->finish(bucket.gradients, *communicator_);
    }
    statistics_.bytes += static_cast<std::int64_t>(bucket.gradients.buffer.nbytes());
    ++statistics_.buckets;
  }
  statistics_.waited_s = seconds_since(start);
  statistics_.overlapped_s = std::max(0.0, busy_s - statistics_.waited_s);
  if (all_left_) return;
  exchange_flags();
  check_moved_parameters();
  if (flags_.any_late()) reduce_late_gradients();
  if (divide_by_active_ranks_) scale_by_active_ranks();
}

at::Tensor Reducer::flags_memory() const {
  const BucketState& last = buckets_.back();
  return last.memory.narrow(0, last.numel, flags_.numel());
}

void Reducer::exchange_flags() {
  if (flags_in_bucket()) {
    flags_.read(flags_memory());
  } else if (!hook_ || hook_->synchronizes()) {
    // A hook may round or drop its data, so the flags are sent separately.
    at::Tensor flags = at::empty({flags_.numel()}, at::TensorOptions().dtype(at::kFloat));
    flags_.write(flags);
    communicator_->all_reduce(flags);
    flags_.read(flags);
  }
  lowest_active_rank_ = 0;
  while (lowest_active_rank_ + 1 < communicator_->world_size() && flags_.joined(lowest_active_rank_)) {
    ++lowest_active_rank_;
  }
}

// Every rank must load the same weights. Not checked while ranks join, because finished ranks have older weights.
void Reducer::check_moved_parameters() {
  if (joining_ || !flags_.moved() || (hook_ && !hook_->synchronizes())) return;
  moved_ = false;
  std::vector<NamedTensor> parameters;
  for (const auto& parameter : parameters_) parameters.push_back({parameter.name, parameter.tensor});
  check_equal_weights(*communicator_, parameters);
}

void Reducer::reduce_late_gradients() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!flags_.late(i) || is_left_to_step(i)) continue;
    Parameter& parameter = parameters_[i];
    at::Tensor late = parameter.late.defined() ? parameter.late.contiguous() : at::zeros_like(parameter.view);
    if (!hook_ || hook_->synchronizes()) communicator_->all_reduce(late, reduce_op());
    parameter.view.add_(late);
    ++statistics_.late_gradients;
  }
}

void Reducer::scale_by_active_ranks() {
  int active = 0;
  for (int rank = 0; rank < communicator_->world_size(); ++rank) active += flags_.joined(rank) ? 0 : 1;
  if (active == 0) return;
  for (auto& bucket : buckets_) {
    if (!bucket.left_to_step) bucket.gradients.buffer.div_(active);
  }
}

void Reducer::restore_gradients() {
  bool any_late_for_step = false;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& parameter = parameters_[i];
    if (is_left_to_step(i)) {
      any_late_for_step = any_late_for_step || parameter.late.defined();
      if (buckets_[parameter.bucket].launched) restore_gradient_for_step(i);
      continue;
    }
    parameter.late.reset();
    if (flags_.contributed(i)) {
      parameter.tensor.mutable_grad() = parameter.view;
    } else {
      ++statistics_.unused_parameters;
    }
  }
  for (auto& bucket : buckets_) bucket.launched = false;
  reduced_for_step_.reset();
  // A late gradient is missing from the sums on all ranks: the step reduces once more.
  if (start_for_step_ && !joining_ && !any_late_for_step) reduced_for_step_ = gradients_for_step();
}

void Reducer::restore_gradient_for_step(std::size_t index) {
  Parameter& parameter = parameters_[index];
  const bool is_late = parameter.late.defined();
  if (is_late) {
    parameter.view.add_(std::exchange(parameter.late, at::Tensor()));
    parameter.held = true;
    ++statistics_.late_gradients;
  }
  if (parameter.held) parameter.tensor.mutable_grad() = parameter.view;
  if (is_late && watch_for_step_) watch_for_step_(index);
}

void Reducer::average_sparse(bool has_inputs) {
  if (hook_ && !hook_->synchronizes()) return;
  statistics_.bytes += sparse_.average({has_inputs, joining_, divide_by_active_ranks_});
}

bool Reducer::shadow_step() {
  const at::NoGradGuard no_grad;
  const std::lock_guard<std::mutex> lock(mutex_);
  sparse_.drop();
  if (all_left_) {
    average_sparse(false);
    return false;
  }
  flags_.clear();
  flags_.set_joined(communicator_->rank());
  next_launch_ = 0;
  for (auto& parameter : parameters_) {
    parameter.tensor.mutable_grad().reset();
    parameter.late.reset();
  }
  for (auto& bucket : buckets_) {
    if (bucket.left_to_step) continue;
    bucket.gradients.buffer.zero_();
    bucket.pending = 0;
    bucket.launched = false;
  }
  launch_ready_buckets();
  wait_for_buckets();
  average_sparse(false);
  return flags_.joined(communicator_->world_size() - 1) && lowest_active_rank_ == communicator_->world_size() - 1;
}

}  // namespace lockstep
