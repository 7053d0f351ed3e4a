#pragma once

#include <string>

#include "lockstep/models/layers/layers.h"
#include "lockstep/models/pretrained_model_bodies.h"
#include "lockstep/models/rotary/rotary_layout.h"
#include "lockstep/models/rotary_models.h"

// What the sources of the classes of these decoders share.
namespace lockstep {

/// The rules for reading weights of one class of any family. @param architecture  name of the class
WeightRules weight_rules(const RotarySettings& settings, const std::string& architecture);

ParameterCount parameter_count(const RotarySettings& settings);

}  // namespace lockstep
