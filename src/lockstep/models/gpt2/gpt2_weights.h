#pragma once

#include <string>

#include "lockstep/models/gpt2_config.h"
#include "lockstep/models/pretrained.h"

namespace lockstep {

/// The rules for reading weights that all classes of GPT-2 share.
WeightRules gpt2_weight_rules(const GPT2Config& config, const std::string& architecture);

/// The configuration in `folder`, changed according to `options`.
GPT2Config gpt2_config_for(const std::string& folder, const LoadOptions& options);

}  // namespace lockstep
