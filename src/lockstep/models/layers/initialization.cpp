#include "lockstep/detail/models/initialization.h"

#include <ATen/core/grad_mode.h>

#include "lockstep/base/text/affixes.h"

namespace lockstep {
namespace {

// The last part but one of a name: "LayerNorm" in "encoder.layer.0.output.LayerNorm.weight".
std::string owner_of(const std::string& name) {
  const std::size_t last = name.rfind('.');
  if (last == std::string::npos) return "";
  const std::size_t before = name.rfind('.', last - 1);
  return name.substr(before == std::string::npos ? 0 : before + 1,
                     last - (before == std::string::npos ? 0 : before + 1));
}

}  // namespace

void initialize_transformer_parameter(const std::string& name, at::Tensor& parameter, double range) {
  const std::string owner = owner_of(name);
  const bool is_norm =
      owner == "LayerNorm" || owner == "ln_1" || owner == "ln_2" || owner == "ln_f" || ends_with(owner, "layer_norm");
  if (ends_with(name, "bias")) {
    parameter.zero_();
  } else if (is_norm) {
    parameter.fill_(1);
  } else {
    parameter.normal_(0, range);
  }
}

void initialize_parameters(torch::nn::Module& module, const Initializer& initializer) {
  const at::NoGradGuard no_grad;
  for (auto& parameter : module.named_parameters()) initializer(parameter.key(), parameter.value());
}

}  // namespace lockstep
