#pragma once

#include <map>
#include <string>
#include <vector>

#include "lockstep/checkpoint/checkpoint_content.h"
#include "lockstep/safetensors/safetensors.h"

namespace lockstep {

/// A part of an optimizer's state as it lies in a safetensors file: tensor "PARAMETER.KIND" for each kind of state, and
/// under "__metadata__" what is no tensor: steps, shapes and, for parts, which elements ("state"), and the options of
/// the groups ("groups"), both as JSON text.
struct OptimizerTensors {
  NamedTensors tensors;
  std::map<std::string, std::string> metadata;
};

OptimizerTensors optimizer_tensors(const OptimizerContent& content);

/// The state in one file: views of the file. @throws Error  if the file is not of that kind
OptimizerContent read_optimizer_file(const SafetensorsFile& file);

/// Joins the files of all ranks. Parameters that several ranks have whole are taken from the first.
/// @throws Error  if a parameter's parts leave a gap or do not fit
OptimizerContent join_optimizer_files(const std::vector<OptimizerContent>& parts);

}  // namespace lockstep
