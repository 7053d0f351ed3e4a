#pragma once

#include <string>

#include "lockstep/models/bert_config.h"
#include "lockstep/models/pretrained.h"

namespace lockstep {

/// The rules for reading weights that all classes of BERT share.
/// @param architecture  name of the class
WeightRules bert_weight_rules(const BertConfig& config, const std::string& architecture);

/// The configuration in `folder`, changed according to `options`.
BertConfig bert_config_for(const std::string& folder, const LoadOptions& options);

}  // namespace lockstep
