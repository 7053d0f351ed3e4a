#include "lockstep/parallel/update/slices_part.h"

#include <fmt/format.h>

#include <cmath>
#include <unordered_map>

#include "lockstep/parallel/agreement/agreed_error.h"
#include "lockstep/parallel/features/features.h"
#include "lockstep/parallel/fused/gradients/fused_gradients.h"
#include "lockstep/parallel/fused/whole_norm.h"
#include "lockstep/parallel/slices/update_difference.h"
#include "lockstep/parallel/update/owned_sums.h"
#include "lockstep/parallel/update/update_lists.h"

namespace lockstep {

std::string SlicesPart::refusal(const UpdateContext& context, const FuseOptions& options) {
  Features features;
  features.add(Feature::VirtualShards);
  if (options.stage != 1) features.add(options.stage == 2 ? Feature::Stage2 : Feature::Stage3);
  if (options.gradient_dtype != at::ScalarType::Float) {
    features.add(Feature::Gradients16,
                 fmt::format("gradients in 16 bits (gradient_dtype is {})", c10::toString(options.gradient_dtype)));
  }
  if (const auto refused = features.reason_not_to_fuse()) return refused->what;
  if (context.buckets.size() != context.gradients.size()) {
    return "with virtual shards all of the module's gradients must be fused, but some are not contiguous or have no "
           "elements, or their parameters are of another optimizer";
  }
  std::unordered_map<const c10::TensorImpl*, std::size_t> known;
  for (std::size_t i = 0; i < context.gradients.num_parameters(); ++i)
    known[context.gradients.parameter(i).unsafeGetTensorImpl()] = i;
  for (const auto& group : context.optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (parameter.requires_grad() && known.count(parameter.unsafeGetTensorImpl()) == 0) {
        return "the optimizer has parameters that are not trained with virtual shards";
      }
    }
  }
  return "";
}

SlicesPart::SlicesPart(UpdateContext& context) : context_(context), update_(context.agreement.equal<std::uint64_t>()) {}

void SlicesPart::look() {
  context_.agreement.say(update_, context_.backward.update);
  for (const std::size_t i : context_.own_gradients->without_slice_sum()) {
    context_.faults->add(i, FusedFault::NoSliceSum);
  }
}

void SlicesPart::check() {
  if (context_.agreement.differs(update_)) throw_different_updates(*context_.communicator, context_.backward.update);
}

double SliceNorm::of_all() { return whole(indices_of_optimizer(context_)); }

double SliceNorm::of(const GradientSelection& selection, const std::vector<std::size_t>& in_order, double p) {
  if (p == 0) {
    // Scaling writes the terms of a sum, so every rank has made its sums before.
    owned_sums(context_);
    context_.communicator->barrier();
  }
  if (p == 0 || !std::isfinite(p)) return RankNorm::of(selection, in_order, p);
  if (p == 2) return whole(in_order);
  throw AgreedError(fmt::format("the norm of order {} cannot be used with virtual shards and a fused optimizer: its "
                                "additions depend on the number of ranks",
                                p),
                    context_.communicator->membership().where() + ", clip_grad_norm_",
                    "clip by the norm of order 2 or infinity, or leave out fuse");
}

double SliceNorm::whole(const std::vector<std::size_t>& parameters) {
  const WholeNorm::Gradients gradients{context_.plan, context_.gradients, context_.buckets,
                                       [this](std::size_t bucket) { return owned_sum(context_, bucket); }};
  return WholeNorm(gradients, parameters).norm(*context_.communicator);
}

}  // namespace lockstep
