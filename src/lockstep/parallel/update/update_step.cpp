#include "lockstep/parallel/update/update_step.h"

#include <chrono>
#include <cmath>
#include <cstddef>

#include "lockstep/base/seconds_since.h"
#include "lockstep/base/trace/trace_recorder.h"
#include "lockstep/optim/clip_grad_norm.h"
#include "lockstep/optim/update/fused_segment.h"
#include "lockstep/optim/update/gradient_memory.h"
#include "lockstep/parallel/fused/norm_over_ranks.h"
#include "lockstep/parallel/update/owned_sums.h"
#include "lockstep/parallel/update/update_counts.h"
#include "lockstep/parallel/update/update_lists.h"

namespace lockstep {
namespace {

// Finds out the norm and whether the step is skipped, as its options ask. @param factor  becomes that of gradients
StepResult clip(UpdateContext& context, const StepOptions& options, double& factor) {
  StepResult result;
  if (options.max_norm != 0) {
    result.norm = std::abs(factor) * context.norm->of_all();
    factor *= clip_factor(result.norm, options.max_norm);
    result.skipped = options.check_finite && !std::isfinite(result.norm);
  } else if (options.check_finite) {
    const bool others = GradientMemory(other_parameters(context)).all_finite();
    result.skipped = !all_finite_over_ranks(*context.communicator, *context.memory, owned_sums(context), others);
  }
  return result;
}

void update_buckets(UpdateContext& context, const PartList& parts, double factor, bool zero) {
  for (std::size_t i = 0; i < context.buckets.size(); ++i) {
    const FusedBucket& bucket = context.buckets[i];
    SegmentUpdate update;
    bool any = false;
    for (const std::size_t parameter : bucket.parameters) {
      update.skip.push_back(context.agreement.contributed()[parameter] == 0);
      any = any || !update.skip.back();
    }
    if (!any && !context.pass->runs_without_gradients()) continue;
    const trace_recorder::Scope trace(TraceKind::BucketUpdate, i, bucket.gradients.nbytes());
    update.gradient = owned_sum(context, i).source;
    update.gradient.factor = factor;
    update.gradient.zero = zero && context.memory->zeroes_buckets();
    update.weights_out = context.weights->owned_weights(i);
    update.weights = update.weights_out;
    for (const auto& part : parts) part->targets(i, update);
    context.memory->access([&] { context.pass->run(i, update); });
    context.memory->publish(i);
  }
}

void receive_weights(UpdateContext& context, const PartList& parts) {
  context.memory->finish([&parts](std::size_t bucket) {
    for (const auto& part : parts) part->received(bucket);
  });
  for (const auto& part : parts) part->weights_are_here();
}

// @return  seconds for which it has waited for the other ranks' weights
double update_all(UpdateContext& context, const PartList& parts, const UpdateNote& note, const StepOptions& options) {
  context.pass->decide(note, /*has_met=*/options.max_norm != 0);  // its norm has waited for all sums
  update_buckets(context, parts, note.factor, options.zero_grad);
  const auto start = std::chrono::steady_clock::now();
  receive_weights(context, parts);
  const double waited_s = seconds_since(start);
  context.pass->end(note);
  if (!context.agreement.joined(context.communicator->rank())) {
    StepOptions rest;
    rest.gradient_factor = note.factor;
    rest.zero_grad = options.zero_grad;
    context.optimizer.step_local(rest);
  }
  return waited_s;
}

}  // namespace

StepResult make_step(UpdateContext& context, const PartList& parts, bool was_reduced) {
  const StepOptions options = context.agreement.request().options;
  double factor = options.gradient_factor;
  context.pass->prepare();
  const StepResult result = clip(context, options, factor);
  double waited_s = 0;
  if (result.skipped) {
    context.memory->finish({});
    if (options.zero_grad) zero_other_gradients(context);
  } else {
    waited_s = update_all(context, parts, {factor, result.norm, context.agreement.contributed()}, options);
  }
  count_update(context, waited_s, was_reduced);
  if (options.zero_grad) context.own_gradients->zero(!result.skipped && context.memory->zeroes_buckets());
  context.watch->start_over();
  for (const auto& part : parts) part->ended();
  context.backward.place.note_step();
  return result;
}

}  // namespace lockstep
