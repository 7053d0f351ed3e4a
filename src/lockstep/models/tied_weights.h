#pragma once

#include <optional>
#include <string>

#include "lockstep/models/pretrained.h"

namespace lockstep {

/// The tensor of the file that becomes `name` of a model, with or without the base model's prefix, as `rules` allow.
std::optional<std::string> name_in_file(const WeightRules& rules, const WeightFiles& files, const std::string& name);

/// True if both tensors have the same shape and, as single-precision numbers, the same values.
bool are_equal(const WeightFiles& files, const std::string& first, const std::string& second);

/// A line of a LoadReport for each weight of `rules.tied` for which the file in `folder` has two tensors with different
/// values: the configuration says that they are one, and the model must have both. Nothing is read if `rules` tie
/// nothing. Biases are left out: a model needs only the one that scores.
/// @throws Error  if the weights cannot be read
std::string weights_to_untie(const WeightRules& rules, const std::string& folder);

/// A line of a LoadReport: a file has the bias that scores words twice.
std::string line_of_two_biases(const std::string& used, const std::string& unused);

/// What a model that scores words would report of the tied tensors of the file in `folder`, one line each; empty if
/// there is nothing. Biases are there, too. @throws Error  if the weights cannot be read
std::string tied_tensors_that_differ(const WeightRules& rules, const std::string& folder);

}  // namespace lockstep
