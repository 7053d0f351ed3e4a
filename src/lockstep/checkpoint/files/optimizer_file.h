#pragma once

#include <map>
#include <string>
#include <vector>

#include "lockstep/detail/checkpoint/checkpoint_content.h"
#include "lockstep/safetensors/safetensors.h"

namespace lockstep {

/// A part of an optimizer's state as it is stored in a safetensors file: tensor "PARAMETER.KIND" for each kind of
/// state. Under "__metadata__" the file holds, as JSON texts, steps, shapes and, for parts, the element ranges
/// ("state"), and the options of the groups ("groups").
struct OptimizerTensors {
  NamedTensors tensors;
  std::map<std::string, std::string> metadata;
};

OptimizerTensors optimizer_tensors(const OptimizerContent& content);

/// The state in one file, as views of the file. @throws Error  if the file does not hold an optimizer's state
OptimizerContent read_optimizer_file(const SafetensorsFile& file);

/// Joins the states of all ranks' files; parts are copied. A parameter that several ranks hold whole is taken from the
/// first of them.
/// @throws Error  if a parameter's parts leave a gap or do not fit
OptimizerContent join_optimizer_states(const std::vector<NamedState>& parts);

}  // namespace lockstep
