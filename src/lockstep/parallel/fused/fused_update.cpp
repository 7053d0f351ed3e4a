#include "lockstep/parallel/fused/fused_update.h"

#include <chrono>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/base/seconds_since.h"
#include "lockstep/base/trace/trace_recorder.h"
#include "lockstep/optim/clip_grad_norm.h"
#include "lockstep/optim/update/fused_segment.h"
#include "lockstep/optim/update/gradient_memory.h"
#include "lockstep/parallel/agreement/optimizer_sync.h"
#include "lockstep/parallel/fused/norm_over_ranks.h"

namespace lockstep {

FuseMode FusedUpdate::mode() const {
  if (!is_active()) return FuseMode::Off;
  return plan_.shares_weights() ? FuseMode::SharedWeights : FuseMode::ShardedState;
}

bool FusedUpdate::covers(const at::Tensor& parameter) const {
  return is_active() && covered_.count(parameter.unsafeGetTensorImpl()) != 0;
}

StepResult FusedUpdate::step(const StepOptions& options) {
  return guarded([&] {
    UpdateRequest request;
    request.options = options;
    agree(&request);
    return run_update();
  });
}

double FusedUpdate::gradient_norm(const std::vector<at::Tensor>& parameters, double norm_type) {
  return guarded([&] {
    UpdateRequest request;
    request.kind = UpdateRequest::Kind::Norm;
    request.norm_type = norm_type;
    agree_on(request, parameters);
    return run_norm();
  });
}

void FusedUpdate::scale_gradients(const std::vector<at::Tensor>& parameters, double factor) {
  guarded([&] {
    UpdateRequest request;
    request.kind = UpdateRequest::Kind::Scale;
    request.factor = factor;
    agree_on(request, parameters);
    run_scale();
  });
}

bool FusedUpdate::shadow_update() {
  return guarded([&] {
    // The other ranks may clip first: this rank takes part in that, too.
    while (true) {
      reducer_.drop_gradients();
      agree(nullptr);
      if (agreement_.active_ranks() == 0) return true;
      switch (agreement_.request().kind) {
        case UpdateRequest::Kind::Norm:
          run_norm();
          break;
        case UpdateRequest::Kind::Scale:
          run_scale();
          break;
        case UpdateRequest::Kind::Update:
          run_update();
          return false;
      }
    }
  });
}

// Finds out what this rank has to say in the agreement.
void FusedUpdate::look() {
  FusedWatch& watch = parts_->watch;
  agreement_.clear();
  if (watch.is_waiting() && watch.gradients_are_gone() && watch.allows_drop()) watch.drop_gradients();
  if (!watch.is_waiting()) watch.note_writes();
  const std::vector<std::size_t> unsummed =
      shards_ != nullptr ? parts_->gradients.without_shard_sum() : std::vector<std::size_t>();
  const bool has_fault = parts_->faults.find() || parts_->faults.find_stale_copies();
  if (has_fault || !unsummed.empty()) {
    parts_->faults.add(unsummed, FusedFault::NoShardSum);
    agreement_.set_faulty();
  } else {
    parts_->gradients.collect(agreement_.contributed());
  }
  if (parts_->written.any()) agreement_.set_moved();
  if (!parts_->gradients.are_summed()) agreement_.set_stale();
  if (!reducer_.all_left()) return;
  const std::uint32_t bits = reducer_.replica_watch().look();
  if (!reducer_.join_period().is_on()) agreement_.set_bits(bits);  // a rank without inputs has older weights
}

// @param request  null: this rank has run out of inputs
void FusedUpdate::agree(const UpdateRequest* request) {
  zeroed_ = false;
  look();
  if (request != nullptr) {
    agreement_.set_request(*request);
  } else {
    agreement_.set_joined(communicator_->rank());
  }
  const auto start = std::chrono::steady_clock::now();
  agreement_.exchange(*communicator_);
  reducer_.statistics().waited_s += seconds_since(start);
  if (agreement_.faulty()) parts_->faults.throw_agreed();
  if (agreement_.moved()) parts_->written.take_up(/*computes=*/request != nullptr);
  reducer_.replica_watch().compare(*communicator_, agreement_.differing_bits());
  reducer_.join_period().set_lowest_active_rank(agreement_.lowest_active_rank());
  const int active = agreement_.active_ranks();
  if (active == 0) return;
  if (active < communicator_->world_size()) {
    // Ranks without inputs do not step their schedulers, and received no list of parameters.
    if (agreement_.request().kind == UpdateRequest::Kind::Update) {
      broadcast_group_options(*communicator_, *optimizer_, agreement_.lowest_active_rank());
    } else {
      selection_.broadcast(*communicator_, agreement_.lowest_active_rank());
    }
  }
  // Scaling needs no sums: existing sums are scaled too, and otherwise the update computes them later.
  if (!agreement_.stale() || agreement_.request().kind == UpdateRequest::Kind::Scale) return;
  for (std::size_t i = 0; i < buckets_.size(); ++i) parts_->memory->begin_reduction(i, reduce_op());
  if (shards_ != nullptr) parts_->gradients.sums_begun();
}

StepResult FusedUpdate::run_update() {
  const StepOptions options = agreement_.request().options;
  FusedMemory& memory = *parts_->memory;
  StepResult result;
  double factor = options.gradient_factor;
  if (options.max_norm != 0) {
    result.norm = std::abs(factor) * global_norm();
    factor *= clip_factor(result.norm, options.max_norm);
    result.skipped = options.check_finite && !std::isfinite(result.norm);
  } else if (options.check_finite) {
    const bool others = GradientMemory(other_parameters()).all_finite();
    result.skipped = !all_finite_over_ranks(*communicator_, memory, owned_gradients(), others);
  }
  const bool has_inputs = !agreement_.joined(communicator_->rank());
  double waited_s = 0;
  if (result.skipped) {
    memory.finish();
    if (options.zero_grad) zero_others();
  } else {
    update_buckets(factor, options.zero_grad);
    const auto start = std::chrono::steady_clock::now();
    memory.finish();
    waited_s = seconds_since(start);
    if (has_inputs) {
      StepOptions rest;
      rest.gradient_factor = factor;
      rest.zero_grad = options.zero_grad;
      optimizer_->step_local(rest);
    }
  }
  if (options.zero_grad && (result.skipped || !memory.zeroes_buckets())) zero_buckets();
  if (parts_->copies && !parts_->copies->end_update(*communicator_)) withdraw_copies();
  count_update(waited_s);
  parts_->watch.start_over();
  zeroed_ = options.zero_grad;
  zeroed_writes_ = parts_->gradients.writes();
  return result;
}

void FusedUpdate::update_buckets(double factor, bool zero) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const FusedBucket& bucket = buckets_[i];
    SegmentUpdate update;
    bool any = false;
    for (const std::size_t parameter : bucket.parameters) {
      update.skip.push_back(agreement_.contributed()[parameter] == 0);
      any = any || !update.skip.back();
    }
    if (!any) continue;
    const trace_recorder::Scope trace(TraceKind::BucketUpdate, i, bucket.gradients.nbytes());
    update.gradient = owned_gradients(i).source;
    update.gradient.factor = factor;
    update.gradient.zero = zero && parts_->memory->zeroes_buckets();
    update.weights = update.weights_out = bucket.weights.data_ptr();
    if (parts_->copies) update.copies = parts_->copies->targets(bucket);
    parts_->memory->access([&] { optimizer_->update_segment(i, update); });
    parts_->memory->publish(i);
  }
}

void FusedUpdate::zero_buckets() {
  for (const FusedBucket& bucket : buckets_) bucket.gradients.zero_();
}

void FusedUpdate::zero_others() {
  for (const at::Tensor& parameter : other_parameters()) {
    if (parameter.grad().defined()) parameter.mutable_grad().zero_();
  }
}

void FusedUpdate::count_update(double waited_s) {
  StepStatistics& statistics = reducer_.statistics();
  statistics.unused_parameters += parts_->gradients.end_update(agreement_.contributed());
  statistics.waited_s += waited_s;
  if (!agreement_.stale()) return;  // counted in backward
  for (const FusedBucket& bucket : buckets_) {
    statistics.bytes += static_cast<std::int64_t>(bucket.gradients.nbytes());
    ++statistics.buckets;
  }
}

double FusedUpdate::run_norm() {
  const double p = agreement_.request().norm_type;
  double norm = 0;
  if (p == 0) {
    // Known on every rank since the agreement.
    const auto& contributed = agreement_.contributed();
    for (std::size_t i = 0; i < contributed.size(); ++i) norm += selection_.contains(i) ? contributed[i] : 0;
  } else {
    std::vector<OwnedGradients> parts;
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      const auto selected = selection_.cut(owned_gradients(b), buckets_[b], gradients_);
      parts.insert(parts.end(), selected.begin(), selected.end());
    }
    norm = shards_ != nullptr && std::isfinite(p) ? whole_norm(selected_)
                                                  : norm_over_ranks(*communicator_, *parts_->memory, parts, 0, p);
  }
  parts_->memory->finish();
  return norm;
}

void FusedUpdate::run_scale() {
  const double factor = agreement_.request().factor;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const FusedBucket& bucket = buckets_[b];
    void* memory = bucket.gradients.data_ptr();
    GradientSource source;
    source.sources = &memory;
    element_type_of(bucket.gradients.scalar_type(), source.type);
    source.factor = factor;
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
      if (!selection_.contains(bucket.parameters[i])) continue;
      const std::int64_t begin = bucket.offsets[i];
      const std::int64_t end = begin + gradients_.parameter(bucket.parameters[i]).numel();
      scale_in_place(source, static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
      parts_->memory->follow_scaling(b, begin, end, factor);
    }
  }
  parts_->watch.take_gradients();
}

// How messages reduce the gradients of this update. A backward that has started to reduce is not part of a join.
ReduceOp FusedUpdate::reduce_op() const {
  return reducer_.join_period().divides_by_active_ranks() ? ReduceOp::Sum : ReduceOp::Avg;
}

int FusedUpdate::divisor() const {
  return reducer_.join_period().divides_by_active_ranks() ? agreement_.active_ranks() : communicator_->world_size();
}

OwnedGradients FusedUpdate::owned_gradients(std::size_t bucket) {
  OwnedGradients part;
  part.source = parts_->memory->gradients(bucket);
  const bool is_averaged = plan_.sources == UpdatePlan::Sources::Messages && reduce_op() == ReduceOp::Avg;
  part.source.divisor = is_averaged || shards_ != nullptr ? 1 : divisor();
  part.begin = static_cast<std::size_t>(buckets_[bucket].own.begin);
  part.end = static_cast<std::size_t>(buckets_[bucket].own.end);
  return part;
}

std::vector<OwnedGradients> FusedUpdate::owned_gradients() {
  std::vector<OwnedGradients> parts;
  for (std::size_t i = 0; i < buckets_.size(); ++i) parts.push_back(owned_gradients(i));
  return parts;
}

// Covers the average of all ranks' gradients, and gradients that are equal on all ranks already; one rank counts these.
double FusedUpdate::global_norm() {
  if (shards_ != nullptr) return whole_norm(indices_of_optimizer());
  const GradientMemory others(other_parameters());
  const bool counts_others = communicator_->rank() == agreement_.lowest_active_rank() && others.count() > 0;
  return norm_over_ranks(*communicator_, *parts_->memory, owned_gradients(), counts_others ? others.norm(2) : 0, 2);
}

std::vector<at::Tensor> FusedUpdate::other_parameters() const {
  std::vector<at::Tensor> result;
  for (const auto& group : optimizer_->param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (!covers(parameter)) result.push_back(parameter);
    }
  }
  return result;
}

}  // namespace lockstep
