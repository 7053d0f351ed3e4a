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
#include "lockstep/parallel/update/owned_sums.h"
#include "lockstep/parallel/update/update_counts.h"
#include "lockstep/parallel/update/update_lists.h"

namespace lockstep {

FuseMode FusedUpdate::mode() const {
  if (!is_active()) return FuseMode::Off;
  return context_.plan.shares_weights() ? FuseMode::SharedWeights : FuseMode::ShardedState;
}

bool FusedUpdate::covers(const at::Tensor& parameter) const {
  return is_active() && context_.covered.count(parameter.unsafeGetTensorImpl()) != 0;
}

bool FusedUpdate::has_sent_gradients() const {
  return context_.stand_ins->any_sum() && !context_.watch->gradients_are_gone();
}

StepResult FusedUpdate::step(const StepOptions& options) {
  try {
    return guarded([&] {
      UpdateRequest request;
      request.options = options;
      agree(&request);
      return run_update();
    });
  } catch (...) {
    const StepResult result = context_.pass->after(std::current_exception());
    release(context_.pass->memory_stays());
    return result;
  }
}

bool FusedUpdate::shadow_update() {
  return guarded([&] {
    // The other ranks may clip first: this rank takes part in that, too.
    while (true) {
      context_.reducer.drop_gradients();
      agree(nullptr);
      if (context_.agreement.active_ranks() == 0) return true;
      switch (context_.agreement.request().kind) {
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

// Finds out what this rank has to say in the agreement. @param request  null: this rank has run out of inputs
void FusedUpdate::look(const UpdateRequest* request) {
  FusedWatch& watch = *context_.watch;
  FusedFaults& faults = *context_.faults;
  UpdateAgreement& agreement = context_.agreement;
  agreement.clear();
  if (request != nullptr) {
    agreement.set_request(*request);
  } else {
    agreement.set_joined(context_.communicator->rank());
  }
  context_.weights->free_all();  // finds what was written
  if (watch.is_waiting() && watch.gradients_are_gone() && watch.allows_drop()) context_.drop_gradients();
  context_.own_gradients->notice_drop();
  if (!watch.is_waiting()) watch.note_writes();
  faults.find();
  for (const auto& part : parts_) part->look();
  if (faults.any()) {
    agreement.set_faulty();
  } else {
    context_.own_gradients->collect(agreement.contributed());
  }
  if (!context_.own_gradients->are_summed()) agreement.say(stale_);
}

void FusedUpdate::agree(const UpdateRequest* request) {
  zeroed_ = false;
  look(request);
  const auto start = std::chrono::steady_clock::now();
  context_.agreement.exchange(context_.weights->meeting());
  context_.backward.statistics.waited_s += seconds_since(start);
  if (context_.agreement.faulty()) context_.faults->throw_agreed();
  for (const auto& part : parts_) part->check();
  take_up();
}

// What the ranks have told each other.
void FusedUpdate::take_up() {
  for (const auto& part : parts_) part->take_up();
  context_.backward.join.set_lowest_active_rank(context_.agreement.lowest_active_rank());
  const int active = context_.agreement.active_ranks();
  if (active == 0) return;
  if (active < context_.communicator->world_size()) {
    // Ranks without inputs do not step their schedulers, and received no list of parameters.
    if (context_.agreement.request().kind == UpdateRequest::Kind::Update) {
      broadcast_group_options(*context_.communicator, context_.optimizer, context_.agreement.lowest_active_rank());
    } else {
      selection_.broadcast(*context_.communicator, context_.agreement.lowest_active_rank());
    }
  }
  reduce_rest();
}

// Adds up what backward has not.
void FusedUpdate::reduce_rest() {
  // Scaling needs no sums: existing sums are scaled too, and otherwise the update computes them later.
  const bool can_wait =
      context_.agreement.request().kind == UpdateRequest::Kind::Scale && !context_.plan.gives_buckets_back;
  if (!context_.agreement.said(stale_) || can_wait) return;
  context_.own_gradients->reduce(reduce_op_of(context_), context_.agreement.active_ranks());
  if (context_.plan.gives_buckets_back) count_reduction(context_);
  if (context_.memory->sums_are_final()) context_.own_gradients->sums_begun();
}

StepResult FusedUpdate::run_update() {
  const StepOptions options = context_.agreement.request().options;
  FusedMemory& memory = *context_.memory;
  StepResult result;
  double factor = options.gradient_factor;
  context_.pass->prepare();
  if (options.max_norm != 0) {
    result.norm = std::abs(factor) * context_.norm->of_all();
    factor *= clip_factor(result.norm, options.max_norm);
    result.skipped = options.check_finite && !std::isfinite(result.norm);
  } else if (options.check_finite) {
    const bool others = GradientMemory(other_parameters(context_)).all_finite();
    result.skipped = !all_finite_over_ranks(*context_.communicator, memory, owned_sums(context_), others);
  }
  const bool has_inputs = !context_.agreement.joined(context_.communicator->rank());
  double waited_s = 0;
  if (result.skipped) {
    memory.finish({});
    if (options.zero_grad) zero_other_gradients(context_);
  } else {
    const UpdateNote note{factor, result.norm, context_.agreement.contributed()};
    context_.pass->decide(note, /*has_met=*/options.max_norm != 0);  // its norm has waited for all sums
    update_buckets(factor, options.zero_grad);
    const auto start = std::chrono::steady_clock::now();
    receive_weights();
    waited_s = seconds_since(start);
    context_.pass->end(note);
    if (has_inputs) {
      StepOptions rest;
      rest.gradient_factor = factor;
      rest.zero_grad = options.zero_grad;
      context_.optimizer.step_local(rest);
    }
  }
  // Gradients that are given back were counted where they were reduced.
  count_update(context_, waited_s, context_.agreement.said(stale_) && !context_.plan.gives_buckets_back);
  if (options.zero_grad) context_.own_gradients->zero(!result.skipped && memory.zeroes_buckets());
  context_.watch->start_over();
  for (const auto& part : parts_) part->ended();
  context_.backward.place.note_step();
  zeroed_ = options.zero_grad;
  zeroed_writes_ = context_.own_gradients->writes();
  return result;
}

void FusedUpdate::update_buckets(double factor, bool zero) {
  for (std::size_t i = 0; i < context_.buckets.size(); ++i) {
    const FusedBucket& bucket = context_.buckets[i];
    SegmentUpdate update;
    bool any = false;
    for (const std::size_t parameter : bucket.parameters) {
      update.skip.push_back(context_.agreement.contributed()[parameter] == 0);
      any = any || !update.skip.back();
    }
    if (!any && !context_.pass->runs_without_gradients()) continue;
    const trace_recorder::Scope trace(TraceKind::BucketUpdate, i, bucket.gradients.nbytes());
    update.gradient = owned_sum(context_, i).source;
    update.gradient.factor = factor;
    update.gradient.zero = zero && context_.memory->zeroes_buckets();
    update.weights_out = context_.weights->owned_weights(i);
    update.weights = update.weights_out;
    for (const auto& part : parts_) part->targets(i, update);
    context_.memory->access([&] { context_.pass->run(i, update); });
    context_.memory->publish(i);
  }
}

void FusedUpdate::receive_weights() {
  context_.memory->finish([this](std::size_t bucket) {
    for (const auto& part : parts_) part->received(bucket);
  });
  for (const auto& part : parts_) part->weights_are_here();
}

}  // namespace lockstep
