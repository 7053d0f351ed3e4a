#pragma once

#include <string>

#include "lockstep/models/bert_config.h"
#include "lockstep/models/pretrained.h"

namespace lockstep {

/// What all classes of BERT have in common when weights are read.
/// @param architecture  the class
WeightRules bert_weight_rules(const BertConfig& config, const std::string& architecture);

/// The configuration of `folder` with the options over it.
BertConfig bert_config_for(const std::string& folder, const LoadOptions& options);

}  // namespace lockstep
