#include "lockstep/train/arguments/environment_arguments.h"

#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/detail/train/mixed_precision.h"
#include "lockstep/train/arguments/fsdp_arguments.h"
#include "lockstep/train/arguments/fsdp_environment.h"

namespace lockstep {
namespace {

void adopt_precision(TrainingArguments& arguments) {
  constexpr const char* kVariable = "ACCELERATE_MIXED_PRECISION";
  if (arguments.bf16 || arguments.fp16) return;
  const MixedPrecision precision = mixed_precision_named(env_string(kVariable).value_or("no"), kVariable);
  arguments.bf16 = precision.autocast && !precision.scales_loss();
  arguments.fp16 = precision.autocast && precision.scales_loss();
}

void adopt_fsdp(TrainingArguments& arguments) {
  if (arguments.fsdp || !arguments.fsdp_config.is_null()) return;
  const auto config = fsdp_config_of_environment();
  if (!config) return;
  check_sharding(arguments, "training arguments");  // while an error can still say that variables ask for it
  arguments.fsdp = std::vector<std::string>{"true"};
  arguments.fsdp_config = *config;
}

}  // namespace

void adopt_environment(TrainingArguments& arguments) {
  adopt_precision(arguments);
  adopt_fsdp(arguments);
}

}  // namespace lockstep
