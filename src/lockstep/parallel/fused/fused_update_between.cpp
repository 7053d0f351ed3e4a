// FusedUpdate: what a program does between two updates. It writes weights, drops gradients, and clips by the norm of
// the average of all ranks' gradients.
#include "lockstep/base/error.h"
#include "lockstep/base/random/mix_bits.h"
#include "lockstep/parallel/fused/fused_update.h"
#include "lockstep/parallel/update/update_lists.h"

namespace lockstep {

double FusedUpdate::gradient_norm(const std::vector<at::Tensor>& parameters, const ClipOptions& options) {
  return guarded([&] {
    UpdateRequest request;
    request.kind = UpdateRequest::Kind::Norm;
    request.clip = options;
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

// Agrees on a request that concerns these parameters alone.
void FusedUpdate::agree_on(UpdateRequest request, const std::vector<at::Tensor>& parameters) {
  selection_.clear();
  selected_ = indices_of(context_, parameters);
  for (const std::size_t index : selected_) selection_.add(index);
  request.parameters = selected_;
  request.selection = selection_.number();
  if (context_.norm->depends_on_order()) {
    for (const std::size_t index : selected_) mix_into(request.selection, index);
  }
  agree(&request);
}

double FusedUpdate::run_norm() {
  const double p = context_.agreement.request().clip.norm_type;
  const double norm = context_.norm->of(selection_, selected_, p);
  context_.memory->finish({});
  return p < 0 && !selection_.any_of(context_.agreement.contributed()) ? -1 : norm;
}

void FusedUpdate::run_scale() {
  const double factor = context_.agreement.request().factor;
  for (std::size_t b = 0; b < context_.buckets.size(); ++b) {
    const FusedBucket& bucket = context_.buckets[b];
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
      const std::int64_t begin = bucket.offsets[i];
      const std::int64_t end = begin + context_.gradients.parameter(bucket.parameters[i]).numel();
      for (int times = selection_.count(bucket.parameters[i]); times > 0; --times) {
        if (context_.pass->scales_gradients()) context_.own_gradients->scale(b, begin, end, factor);
        context_.memory->follow_scaling(b, begin, end, factor);
      }
    }
  }
  context_.watch->take_gradients();
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
