#include "lockstep/parallel/fused/fuse_checks.h"

#include <fmt/format.h>

#include <unordered_set>

namespace lockstep {
namespace {

std::string name_of(const at::Tensor& parameter, const GradientBuckets& gradients) {
  for (std::size_t i = 0; i < gradients.num_parameters(); ++i) {
    if (gradients.parameter(i).is_same(parameter)) return "parameter \"" + gradients.name(i) + "\"";
  }
  return "a parameter that the module does not train";
}

}  // namespace

std::string refusal_of_twice_listed(const FlatOptimizer& optimizer, const GradientBuckets& gradients) {
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
      return fmt::format(
          "the optimizer has {} twice, as parameters() lists a module that is registered twice, so that "
          "each of its steps updates it twice; give it each parameter once",
          name_of(parameter, gradients));
    }
  }
  return "";
}

}  // namespace lockstep
