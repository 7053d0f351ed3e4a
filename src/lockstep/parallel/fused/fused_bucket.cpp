#include "lockstep/parallel/fused/fused_bucket.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "lockstep/base/error.h"
#include "lockstep/optim/memory_piece.h"

namespace lockstep {
namespace {

bool can_be_fused(const at::Tensor& parameter) {
  const at::ScalarType dtype = parameter.scalar_type();
  return (dtype == at::ScalarType::Float || dtype == at::ScalarType::Double) && parameter.is_contiguous() &&
         parameter.device().is_cpu() && parameter.layout() == at::kStrided && parameter.is_leaf();
}

std::unordered_set<const c10::TensorImpl*> updated_by(const FlatOptimizer& optimizer) {
  std::unordered_set<const c10::TensorImpl*> result;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) result.insert(parameter.unsafeGetTensorImpl());
  }
  return result;
}

FusedBucket bucket_over(const BucketMemory& gradients) {
  FusedBucket bucket;
  bucket.index = gradients.contents.index;
  bucket.parameters = gradients.parameters;
  bucket.offsets = gradients.offsets;
  bucket.gradients = gradients.memory;
  return bucket;
}

}  // namespace

std::vector<FusedBucket> choose_fused_buckets(const GradientBuckets& gradients, const FlatOptimizer& optimizer,
                                              const Communicator& communicator) {
  const auto known = updated_by(optimizer);
  std::vector<FusedBucket> chosen;
  bool any_known = false;
  for (std::size_t index = 0; index < gradients.size(); ++index) {
    bool takes = gradients[index].memory.numel() > 0;  // of parameters without elements there is nothing to share out
    for (const std::size_t i : gradients[index].parameters) {
      const at::Tensor& parameter = gradients.parameter(i);
      const bool is_known = known.count(parameter.unsafeGetTensorImpl()) != 0;
      any_known = any_known || is_known;
      takes = takes && is_known && can_be_fused(parameter);
    }
    if (takes) chosen.push_back(bucket_over(gradients[index]));
  }
  if (!any_known) {
    throw Error("the optimizer has none of the module's parameters that require a gradient",
                communicator.membership().where() + ", fuse",
                "build the optimizer over the parameters of the module that is wrapped");
  }
  return chosen;
}

std::string why_no_bucket(const GradientBuckets& gradients) {
  for (const NamedTensor& parameter : gradients.parameters()) {
    if (parameter.tensor.device().is_cpu()) continue;
    return fmt::format("parameter \"{}\" is on {}, but the update that ranks share writes only CPU memory",
                       parameter.name, parameter.tensor.device().str());
  }
  return "no bucket holds nothing but contiguous fp32 or fp64 parameters of the optimizer on the CPU";
}

std::size_t position_of(const std::vector<FusedBucket>& buckets, std::size_t index) {
  const auto found =
      std::find_if(buckets.begin(), buckets.end(), [&](const FusedBucket& bucket) { return bucket.index == index; });
  return static_cast<std::size_t>(found - buckets.begin());
}

std::vector<std::size_t> parameters_of(const std::vector<FusedBucket>& buckets) {
  std::vector<std::size_t> result;
  for (const FusedBucket& bucket : buckets) {
    result.insert(result.end(), bucket.parameters.begin(), bucket.parameters.end());
  }
  std::sort(result.begin(), result.end());
  return result;
}

at::Tensor weights_place(const FusedBucket& bucket, std::size_t index, at::IntArrayRef sizes) {
  return memory_piece(bucket.weights, bucket.offsets[index], sizes);
}

void leave_shared_weights(const FusedBucket& bucket, const GradientBuckets& gradients) {
  const auto* from = static_cast<const std::byte*>(bucket.weights.data_ptr());
  const at::Tensor own = bucket.weights.clone();
  for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
    at::Tensor parameter = gradients.parameter(bucket.parameters[i]);
    const std::int64_t offset = bucket.offsets[i];
    const bool is_here = parameter.data_ptr() == from + static_cast<std::size_t>(offset) * own.element_size();
    if (is_here) parameter.set_data(memory_piece(own, offset, parameter.sizes()));
  }
}

}  // namespace lockstep
