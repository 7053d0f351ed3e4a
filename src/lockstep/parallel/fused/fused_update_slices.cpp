// FusedUpdate: the parameters that a request concerns, and slices: what it takes of them, and norms whose bits
// do not depend on the number of ranks.
#include <fmt/format.h>

#include "lockstep/base/random/mix_bits.h"
#include "lockstep/parallel/fused/fused_update.h"
#include "lockstep/parallel/fused/whole_norm.h"

namespace lockstep {

std::string FusedUpdate::refusal_with_slices(const FlatOptimizer& optimizer, const GradientBuckets& gradients,
                                             const std::vector<FusedBucket>& buckets, FuseOptions options) {
  if (options.stage != 1) return "with virtual shards each rank adds gradients up in buckets, which stage 2 gives back";
  if (options.gradient_dtype != at::ScalarType::Float) {
    return fmt::format("gradient_dtype is {}, which rounds each rank's part of a sum over virtual shards",
                       c10::toString(options.gradient_dtype));
  }
  if (buckets.size() != gradients.size()) {
    return "with virtual shards all of the module's gradients must be fused, and some are not contiguous or have no "
           "elements, or their parameters are of another optimizer";
  }
  std::unordered_map<const c10::TensorImpl*, std::size_t> known;
  for (std::size_t i = 0; i < gradients.num_parameters(); ++i) known[gradients.parameter(i).unsafeGetTensorImpl()] = i;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (parameter.requires_grad() && known.count(parameter.unsafeGetTensorImpl()) == 0) {
        return "the optimizer has parameters that are not trained with virtual shards";
      }
    }
  }
  return "";
}

// Agrees on a request that concerns these parameters alone.
void FusedUpdate::agree_on(UpdateRequest request, const std::vector<at::Tensor>& parameters) {
  selection_.clear();
  selected_ = indices_of(parameters);
  for (const std::size_t index : selected_) selection_.add(index);
  request.parameters = selected_;
  request.selection = selection_.number();
  // The bits of a norm with slices follow from the order, too.
  for (const std::size_t index : selected_) {
    if (slices_ != nullptr) mix_into(request.selection, index);
  }
  agree(&request);
}

std::vector<std::size_t> FusedUpdate::indices_of(const std::vector<at::Tensor>& parameters) const {
  std::vector<std::size_t> indices;
  for (const at::Tensor& parameter : parameters)
    indices.push_back(context_.covered.at(parameter.unsafeGetTensorImpl()));
  return indices;
}

std::vector<std::size_t> FusedUpdate::indices_of_optimizer() const {
  std::vector<std::size_t> indices;
  for (const auto& group : context_.optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      const auto found = context_.covered.find(parameter.unsafeGetTensorImpl());
      if (found != context_.covered.end()) indices.push_back(found->second);  // others are frozen
    }
  }
  return indices;
}

double FusedUpdate::whole_norm(const std::vector<std::size_t>& parameters) {
  const double p = context_.agreement.request().clip.norm_type;
  if (context_.agreement.request().kind == UpdateRequest::Kind::Norm && p != 2) {
    throw AgreedError(fmt::format("the norm of order {} with virtual shards and a fused optimizer, whose additions "
                                  "depend on the number of ranks",
                                  p),
                      context_.communicator->membership().where() + ", clip_grad_norm_",
                      "clip by the norm of order 2 or infinity, or leave out fuse");
  }
  const WholeNorm::Gradients gradients{context_.plan, context_.gradients, context_.buckets,
                                       [this](std::size_t b) { return owned_gradients(b); }};
  return WholeNorm(gradients, parameters).norm(*context_.communicator);
}

}  // namespace lockstep
