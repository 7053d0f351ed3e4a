#include "lockstep/parallel/fused/fused_step.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <utility>

#include "lockstep/base/seconds_since.h"
#include "lockstep/optim/clip_grad_norm.h"
#include "lockstep/optim/gradient_memory.h"
#include "lockstep/optim/update/fused_segment.h"
#include "lockstep/parallel/agreement/optimizer_sync.h"

namespace lockstep {
namespace {

using StepClock = std::chrono::steady_clock;

}  // namespace

FuseMode FusedStep::mode() const {
  if (!is_active()) return FuseMode::Off;
  return memory_->shares_weights() ? FuseMode::SharedWeights : FuseMode::ShardedState;
}

bool FusedStep::covers(const at::Tensor& parameter) const {
  return is_active() && covered_.count(parameter.unsafeGetTensorImpl()) != 0;
}

StepResult FusedStep::step(const StepOptions& options) {
  return guarded([&] {
    StepRequest request;
    request.options = options;
    agree(&request);
    return run_step();
  });
}

bool FusedStep::shadow_step() {
  return guarded([&] {
    // The other ranks may clip first: this rank takes part in that, too.
    while (true) {
      reducer_.drop_gradients();
      agree(nullptr);
      if (agreement_.active_ranks() == 0) return true;
      switch (agreement_.request().kind) {
        case StepRequest::Kind::Norm:
          run_norm();
          break;
        case StepRequest::Kind::Scale:
          run_scale();
          break;
        case StepRequest::Kind::Step:
          run_step();
          return false;
      }
    }
  });
}

// Null: this rank has run out of inputs.
void FusedStep::agree(const StepRequest* request) {
  zeroed_ = false;
  agreement_.clear();
  if (watch_->is_waiting() && watch_->gradients_are_gone() && watch_->allows_drop()) watch_->drop_gradients();
  if (!watch_->is_waiting()) watch_->note_writes();
  if (find_faults()) {
    agreement_.set_faulty();
  } else {
    reducer_.collect_for_step(agreement_.contributed());
  }
  if (any_moved() || watch_->any_writes()) agreement_.set_moved();
  if (request != nullptr) {
    agreement_.set_request(*request);
  } else {
    agreement_.set_joined(communicator_->rank());
  }
  if (!reducer_.is_reduced_for_step()) agreement_.set_stale();
  const auto start = StepClock::now();
  agreement_.exchange(*communicator_);
  reducer_.statistics().waited_s += seconds_since(start);
  if (agreement_.faulty()) throw_agreed_fault();
  if (agreement_.moved()) take_up_weights();
  reducer_.set_lowest_active_rank(agreement_.lowest_active_rank());
  const int active = agreement_.active_ranks();
  if (active == 0) return;
  if (active < communicator_->world_size()) {
    if (agreement_.request().kind == StepRequest::Kind::Step) {
      // Ranks without inputs do not step their schedulers.
      broadcast_group_options(*communicator_, *optimizer_, agreement_.lowest_active_rank());
    } else {
      share_selection();
    }
  }
  // Scaling needs no sums: existing sums are scaled too, and otherwise the step computes them later.
  if (!agreement_.stale() || agreement_.request().kind == StepRequest::Kind::Scale) return;
  for (std::size_t i = 0; i < buckets_.size(); ++i) memory_->begin_reduction(i);
}

StepResult FusedStep::run_step() {
  const StepOptions options = agreement_.request().options;
  StepResult result;
  double factor = options.gradient_factor;
  if (options.max_norm != 0) {
    result.norm = std::abs(factor) * global_norm(2);
    factor *= clip_factor(result.norm, options.max_norm);
    result.skipped = options.check_finite && !std::isfinite(result.norm);
  } else if (options.check_finite) {
    result.skipped = !global_all_finite();
  }
  const bool has_inputs = !agreement_.joined(communicator_->rank());
  double waited_s = 0;
  if (result.skipped) {
    memory_->finish();
    if (options.zero_grad) zero_others();
  } else {
    update(factor, options.zero_grad);
    const auto start = StepClock::now();
    memory_->finish();
    waited_s = seconds_since(start);
    if (has_inputs) {
      StepOptions rest;
      rest.gradient_factor = factor;
      rest.zero_grad = options.zero_grad;
      optimizer_->step_local(rest);
    }
  }
  if (options.zero_grad && (result.skipped || !memory_->zeroes_buckets())) zero_buckets();
  reducer_.end_reduction_for_step();
  reducer_.show_after_step(agreement_.contributed());
  count_step(waited_s);
  watch_->start_over();
  zeroed_ = options.zero_grad;
  zeroed_writes_ = reducer_.writes_for_step();
  return result;
}

void FusedStep::update(double factor, bool zero) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const FusedBucket& bucket = buckets_[i];
    FusedUpdate update;
    bool any = false;
    for (const std::size_t parameter : bucket.gradients.parameters) {
      update.skip.push_back(agreement_.contributed()[parameter] == 0);
      any = any || !update.skip.back();
    }
    if (!any) continue;
    update.gradient = owned_gradients(i).source;
    update.gradient.factor = factor;
    update.gradient.zero = zero && memory_->zeroes_buckets();
    update.weights = update.weights_out = bucket.weights.data_ptr();
    memory_->access([&] { optimizer_->update_segment(i, update); });
    memory_->publish(i);
  }
}

void FusedStep::zero_buckets() {
  for (const FusedBucket& bucket : buckets_) at::Tensor(bucket.gradients.memory).zero_();
}

void FusedStep::zero_others() {
  for (const at::Tensor& parameter : other_parameters()) {
    if (parameter.grad().defined()) parameter.mutable_grad().zero_();
  }
}

void FusedStep::count_step(double waited_s) {
  StepStatistics& statistics = reducer_.statistics();
  statistics.waited_s += waited_s;
  if (!agreement_.stale()) return;  // counted in backward
  for (const FusedBucket& bucket : buckets_) {
    statistics.bytes += static_cast<std::int64_t>(bucket.gradients.memory.nbytes());
    ++statistics.buckets;
  }
}

bool FusedStep::gradients_are_zero() const {
  return zeroed_ && other_parameters().empty() && reducer_.writes_for_step() == zeroed_writes_;
}

std::vector<at::Tensor> FusedStep::other_parameters() const {
  std::vector<at::Tensor> result;
  for (const auto& group : optimizer_->param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (!covers(parameter)) result.push_back(parameter);
    }
  }
  return result;
}

}  // namespace lockstep
