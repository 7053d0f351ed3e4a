#include "lockstep/parallel/fused/fused_update.h"

#include <chrono>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/seconds_since.h"
#include "lockstep/parallel/agreement/optimizer_state.h"
#include "lockstep/parallel/agreement/optimizer_sync.h"
#include "lockstep/parallel/update/owned_sums.h"
#include "lockstep/parallel/update/update_counts.h"
#include "lockstep/parallel/update/update_lists.h"
#include "lockstep/parallel/update/update_maker.h"
#include "lockstep/parallel/update/update_step.h"

namespace lockstep {
namespace {

// As after a backward without `fuse`: the averages, and what this rank has added since.
void show_averages(GradientBuckets& gradients, const std::vector<at::Tensor>& averages) {
  for (std::size_t i = 0; i < averages.size(); ++i) {
    if (!averages[i].defined()) continue;
    gradients.take(i);
    gradients.place(i).add_(averages[i]);
    gradients.show(i);
  }
}

}  // namespace

std::unique_ptr<FusedUpdate> FusedUpdate::make(FlatOptimizer& optimizer, Reducer& reducer,
                                               const std::shared_ptr<Communicator>& communicator, FuseOptions options,
                                               std::string& reason, const Slices* slices) {
  std::unique_ptr<FusedUpdate> fused(new FusedUpdate(optimizer, reducer, communicator));
  UpdateMaker maker(fused->context_, fused->parts_, std::move(options), slices);
  reason = maker.refusal();
  if (!reason.empty()) return nullptr;
  fused->is_active_ = true;
  try {
    maker.make(*fused);
  } catch (const Error& error) {
    // Memory is short on some rank, and all ranks know it. If instead the group has ended, the next call reports that.
    reason = error.happened();
    const bool group_has_ended = cause_of(error) != nullptr;
    fused->release(fused->context_.pass->stays_unmade(group_has_ended));
    fused->context_.pass->abandon(std::current_exception(), group_has_ended);
    return nullptr;
  }
  return fused;
}

FusedUpdate::FusedUpdate(FlatOptimizer& optimizer, Reducer& reducer, std::shared_ptr<Communicator> communicator)
    : context_(optimizer, reducer, std::move(communicator)), stale_(context_.agreement.any()), clipping_(context_) {}

FusedUpdate::~FusedUpdate() { release(is_active_ && context_.pass->memory_stays()); }

void FusedUpdate::release(bool memory_stays) noexcept {
  if (!std::exchange(is_active_, false)) return;
  if (context_.optimizer.step_delegate() == this) context_.optimizer.set_step_delegate(nullptr);
  try {
    const at::NoGradGuard no_grad;
    if (context_.own_gradients != nullptr) context_.own_gradients->leave();
    context_.reducer.take_back(!memory_stays);
    if (context_.weights && !memory_stays) context_.weights->leave();
  } catch (const std::exception& error) {
    log_warning("the weights stay in memory that the ranks share: {}", error.what());
  }
  context_.pass->leave();
  parts_.clear();
  context_.end();
}

void FusedUpdate::optimizer_destroyed() noexcept {
  context_.optimizer.set_step_delegate(nullptr);
  release();
}

void FusedUpdate::unfuse() {
  guarded([&] {
    FlatOptimizer& optimizer = context_.optimizer;
    const NamedParameters names = numbered_parameters(optimizer);
    const NamedState state = context_.pass->whole_state(names);
    const std::vector<at::Tensor> averages = context_.own_gradients->gather();
    context_.weights->give_back();
    release();
    show_averages(context_.gradients, averages);
    optimizer.unshard(names, state);
    context_.pass->let_go();
    // No rank may write its weights before all ranks have their own.
    if (context_.communicator->world_size() > 1) context_.communicator->barrier();
  });
}

void FusedUpdate::unfuse_weights() {
  guarded([&] {
    // Gradients first: what they take is free when whole weights need memory.
    context_.own_gradients->leave();
    context_.reducer.take_back();
    parts_.remove(*context_.own_gradients);
    context_.own_gradients = nullptr;
    context_.weights->give_back();
    release();
    if (context_.communicator->world_size() > 1) context_.communicator->barrier();  // as in unfuse
  });
}

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
      return make_update();
    });
  } catch (...) {
    const StepResult result = context_.pass->after(std::current_exception());
    release(context_.pass->memory_stays());
    return result;
  }
}

double FusedUpdate::gradient_norm(const std::vector<at::Tensor>& parameters, const ClipOptions& options) {
  return guarded([&] {
    const UpdateRequest request = clipping_.request_norm(parameters, options);
    agree(&request);
    return clipping_.norm();
  });
}

void FusedUpdate::scale_gradients(const std::vector<at::Tensor>& parameters, double factor) {
  guarded([&] {
    const UpdateRequest request = clipping_.request_scaling(parameters, factor);
    agree(&request);
    clipping_.scale();
  });
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
          clipping_.norm();
          break;
        case UpdateRequest::Kind::Scale:
          clipping_.scale();
          break;
        case UpdateRequest::Kind::Update:
          make_update();
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
      clipping_.broadcast(context_.agreement.lowest_active_rank());
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

StepResult FusedUpdate::make_update() {
  // Gradients that are given back were counted where they were reduced.
  const bool was_reduced = context_.agreement.said(stale_) && !context_.plan.gives_buckets_back;
  const StepResult result = make_step(context_, parts_, was_reduced);
  zeroed_ = context_.agreement.request().options.zero_grad;
  zeroed_writes_ = context_.own_gradients->writes();
  return result;
}

void FusedUpdate::before_forward() {
  FusedWatch& watch = *context_.watch;
  if (watch.is_waiting() && !watch.gradients_are_gone()) return guarded([&] { context_.faults->throw_own(); });
  if (watch.is_waiting()) gradients_dropped();
  context_.weights->take_writes();
}

// Weights that were loaded since backward are as valid as weights that are loaded now.
void FusedUpdate::gradients_dropped() {
  FusedWatch& watch = *context_.watch;
  if (watch.is_waiting() && !watch.allows_drop()) guarded([&] { context_.faults->throw_own(); });
  context_.drop_gradients();
}

bool FusedUpdate::gradients_are_zero() const {
  return zeroed_ && other_parameters(context_).empty() && context_.own_gradients->writes() == zeroed_writes_;
}

// Gradients that wait are of the weights before the call.
WeightPlace& FusedUpdate::weights_between_steps(const std::string& call) {
  const FusedWatch& watch = *context_.watch;
  if (watch.is_waiting() && !watch.gradients_are_gone()) {
    throw Error(call + " was called between backward and the step of the fused optimizer",
                context_.communicator->membership().where() + ", fused optimizer",
                "call it before backward, after step(), or after zero_grad()");
  }
  if (watch.is_waiting()) gradients_dropped();
  return *context_.weights;
}

}  // namespace lockstep
