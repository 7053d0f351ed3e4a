#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/safetensors/safetensors.h"

namespace lockstep {

constexpr const char* kWeightsFile = "model.safetensors";
constexpr const char* kWeightIndexFile = "model.safetensors.index.json";

/// One of the files in which a model's weights are saved.
struct WeightFile {
  std::string name;
  NamedTensors tensors;
};

/// The files of which `write_weight_files` makes a model folder. Looks at sizes and types alone.
std::vector<WeightFile> plan_weight_files(const NamedTensors& tensors, std::uint64_t max_shard_bytes);

/// Call it when all of `files` are written: writes their index if they are several, and removes weight files of an
/// earlier save that these do not replace. @throws Error  if the folder cannot be written
void finish_weight_files(const std::string& folder, const std::vector<WeightFile>& files);

}  // namespace lockstep
