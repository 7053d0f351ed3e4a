#include "lockstep/checkpoint/files/optimizer_file.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/files/optimizer_metadata.h"

namespace lockstep {
namespace {

std::string tensor_name(const std::string& parameter, const std::string& kind) { return parameter + "." + kind; }

// Sizes and range fit each other already.
void check_tensors(const std::string& name, const ParameterState& state, const std::string& path) {
  for (const auto& [kind, tensor] : state.tensors) {
    const bool fits = state.is_whole() ? tensor.sizes().vec() == state.sizes
                                       : tensor.dim() == 1 && tensor.numel() == state.end - state.begin;
    if (fits) continue;
    throw Error(fmt::format("the state of {} contradicts itself: {} has another shape", name, kind), path,
                "resume from another checkpoint");
  }
}

}  // namespace

OptimizerTensors optimizer_tensors(const OptimizerContent& content) {
  OptimizerTensors result;
  OptimizerMetadata metadata;
  metadata.groups = content.groups;
  for (const auto& [name, state] : content.state) {
    OptimizerMetadata::Parameter parameter{state.sizes, state.begin, state.end, state.step, {}};
    for (const auto& [kind, tensor] : state.tensors) {
      parameter.kinds.push_back(kind);
      result.tensors.emplace_back(tensor_name(name, kind), tensor);
    }
    metadata.parameters.emplace(name, std::move(parameter));
  }
  result.metadata = optimizer_metadata_texts(metadata);
  result.metadata.emplace("format", "pt");
  return result;
}

OptimizerContent read_optimizer_file(const SafetensorsFile& file) {
  const OptimizerMetadata metadata = parse_optimizer_metadata(file.metadata(), file.path());
  OptimizerContent content;
  content.groups = metadata.groups;
  for (const auto& [name, parameter] : metadata.parameters) {
    ParameterState state;
    state.sizes = parameter.sizes;
    state.begin = parameter.begin;
    state.end = parameter.end;
    state.step = parameter.step;
    for (const std::string& kind : parameter.kinds) state.tensors[kind] = file.tensor(tensor_name(name, kind));
    check_tensors(name, state, file.path());
    content.state.emplace(name, std::move(state));
  }
  return content;
}

OptimizerContent join_optimizer_states(const std::vector<NamedState>& parts) {
  OptimizerContent joined;
  std::vector<NamedState> pieces;
  for (const NamedState& part : parts) {
    NamedState& rest = pieces.emplace_back();
    for (const auto& [name, state] : part) {
      if (state.is_whole()) {
        joined.state.emplace(name, state);
      } else if (state.begin != state.end) {
        rest.emplace(name, state);
      }
    }
  }
  for (auto& [name, state] : merge_states(pieces)) {
    if (!joined.state.emplace(name, std::move(state)).second) {
      throw Error(fmt::format("the optimizer state of {} is given both whole and in parts", name),
                  "join_optimizer_states", "resume from another checkpoint");
    }
  }
  return joined;
}

}  // namespace lockstep
