#pragma once

#include <string>

#include "lockstep/models/gpt2_config.h"
#include "lockstep/models/pretrained.h"

namespace lockstep {

/// What all classes of GPT-2 have in common when weights are read.
WeightRules gpt2_weight_rules(const GPT2Config& config, const std::string& architecture);

/// The configuration of `folder` with the options over it.
GPT2Config gpt2_config_for(const std::string& folder, const LoadOptions& options);

}  // namespace lockstep
