#include "lockstep/parallel/fused_step.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/optim/clip_grad_norm.h"
#include "lockstep/optim/gradient_memory.h"

namespace lockstep {
namespace {

using StepClock = std::chrono::steady_clock;

double elapsed_s(StepClock::time_point since) {
  return std::chrono::duration<double>(StepClock::now() - since).count();
}

double reduce_number(Communicator& communicator, double value, ReduceOp op) {
  if (communicator.world_size() == 1) return value;
  at::Tensor number = at::empty({1}, at::TensorOptions().dtype(at::kDouble));
  double* content = number.data_ptr<double>();
  *content = value;
  communicator.all_reduce(number, op);
  return *content;
}

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

double FusedStep::clip_grad_norm(double max_norm, double norm_type, bool error_if_nonfinite) {
  StepRequest request;
  request.clips_only = true;
  request.options.max_norm = max_norm;
  request.options.check_finite = error_if_nonfinite;
  request.norm_type = norm_type;
  const double norm = guarded([&] {
    agree(&request);
    return run_clip();
  });
  if (error_if_nonfinite) check_norm_is_finite(norm, norm_type, covered_.size() + other_parameters().size());
  return norm;
}

bool FusedStep::shadow_step() {
  return guarded([&] {
    // The others may clip first: then take part in that, too.
    do {
      reducer_.drop_gradients();
      agree(nullptr);
      if (agreement_.active_ranks() == 0) return true;
      if (agreement_.request().clips_only) run_clip();
    } while (agreement_.request().clips_only);
    run_step();
    return false;
  });
}

// Null: this rank has run out of inputs.
void FusedStep::agree(const StepRequest* request) {
  check_weights_are_here();
  zeroed_ = false;
  agreement_.clear();
  reducer_.collect_for_step(agreement_.contributed());
  if (request != nullptr) {
    agreement_.set_request(*request);
  } else {
    agreement_.set_joined(communicator_->rank());
  }
  if (!reducer_.is_reduced_for_step()) agreement_.set_stale();
  const auto start = StepClock::now();
  agreement_.exchange(*communicator_);
  reducer_.statistics().waited_s += elapsed_s(start);
  reducer_.set_lowest_active_rank(agreement_.lowest_active_rank());
  const int active = agreement_.active_ranks();
  if (active == 0) return;
  if (active < communicator_->world_size() && !agreement_.request().clips_only) share_group_options();
  if (!agreement_.stale()) return;
  for (std::size_t i = 0; i < buckets_.size(); ++i) memory_->begin_reduction(i);
}

// A module that is moved, or a parameter whose data is replaced, leaves the memory that steps update.
void FusedStep::check_weights_are_here() const {
  for (const FusedBucket& bucket : buckets_) {
    for (std::size_t i = 0; i < bucket.gradients.parameters.size(); ++i) {
      const std::size_t index = bucket.gradients.parameters[i];
      const auto* expected = static_cast<const std::byte*>(bucket.weights.data_ptr()) +
                             static_cast<std::size_t>(bucket.gradients.offsets[i]) * bucket.weights.element_size();
      if (reducer_.parameter(index).data_ptr() == expected || reducer_.parameter(index).numel() == 0) continue;
      throw Error(fmt::format("parameter \"{}\" was moved to other memory after fuse", reducer_.name(index)),
                  communicator_->membership().where() + ", fused optimizer",
                  "convert or move the module before fuse, or call unfuse first");
    }
  }
}

// Schedulers of ranks that have run out of inputs stand still.
void FusedStep::share_group_options() {
  auto options = optimizer_->group_options();
  std::int64_t count = 0;
  for (const auto& group : options) count += static_cast<std::int64_t>(group.size());
  at::Tensor numbers = at::empty({count}, at::TensorOptions().dtype(at::kDouble));
  double* next = numbers.data_ptr<double>();
  for (const auto& group : options) {
    for (const auto& entry : group) *next++ = entry.second;
  }
  communicator_->broadcast(numbers, agreement_.lowest_active_rank());
  if (!agreement_.joined(communicator_->rank())) return;
  next = numbers.data_ptr<double>();
  for (auto& group : options) {
    for (auto& entry : group) entry.second = *next++;
  }
  optimizer_->load_group_options(options);
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
    waited_s = elapsed_s(start);
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
  zeroed_ = options.zero_grad;
  zeroed_writes_ = reducer_.writes_for_step();
  return result;
}

double FusedStep::run_clip() {
  const StepRequest& request = agreement_.request();
  const double norm = global_norm(request.norm_type);
  memory_->finish();
  const double factor = clip_factor(norm, request.options.max_norm);
  if (factor == 1 || (request.options.check_finite && !std::isfinite(norm))) return norm;
  for (const FusedBucket& bucket : buckets_) {
    void* memory = bucket.gradients.memory.data_ptr();
    GradientSource source;
    source.sources = &memory;
    element_type_of(bucket.gradients.memory.scalar_type(), source.type);
    source.factor = factor;
    scale_in_place(source, 0, static_cast<std::size_t>(bucket.gradients.memory.numel()));
  }
  memory_->follow_scaling(factor);
  GradientMemory(other_parameters()).scale(factor);
  return norm;
}

OwnedGradients FusedStep::owned_gradients(std::size_t bucket) {
  OwnedGradients part;
  part.source = memory_->gradients(bucket);
  part.source.divisor = reducer_.divides_by_active_ranks() ? agreement_.active_ranks() : communicator_->world_size();
  part.begin = static_cast<std::size_t>(buckets_[bucket].begin);
  part.end = static_cast<std::size_t>(buckets_[bucket].end);
  return part;
}

std::vector<OwnedGradients> FusedStep::owned_gradients() {
  std::vector<OwnedGradients> parts;
  for (std::size_t i = 0; i < buckets_.size(); ++i) parts.push_back(owned_gradients(i));
  return parts;
}

// Of the average of all ranks' gradients, and of those that are equal on all ranks already, which one rank counts.
double FusedStep::global_norm(double p) {
  const auto parts = owned_gradients();
  const GradientMemory others(other_parameters());
  if (p == 0) {
    double count = static_cast<double>(others.count());
    for (const FusedBucket& bucket : buckets_) {
      for (const std::size_t i : bucket.gradients.parameters) count += agreement_.contributed()[i];
    }
    return reduce_number(*communicator_, count, ReduceOp::Max);
  }
  const bool counts_others = communicator_->rank() == agreement_.lowest_active_rank() && others.count() > 0;
  const double own = counts_others ? others.norm(p) : 0;
  double value = 0;
  if (p == std::numeric_limits<double>::infinity()) {
    memory_->access([&] { value = max_abs(parts); });
    return reduce_number(*communicator_, std::isnan(own) || own > value ? own : value, ReduceOp::Max);
  }
  memory_->access([&] { value = p == 2 ? sum_of_squares(parts) : sum_of_powers(parts, p); });
  const double sum = reduce_number(*communicator_, value + std::pow(own, p), ReduceOp::Sum);
  return p == 2 ? std::sqrt(sum) : std::pow(sum, 1 / p);
}

bool FusedStep::global_all_finite() {
  const auto parts = owned_gradients();
  bool finite = GradientMemory(other_parameters()).all_finite();
  memory_->access([&] { finite = all_finite(parts) && finite; });
  return reduce_number(*communicator_, finite ? 0 : 1, ReduceOp::Max) == 0;
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
