#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lockstep/checkpoint/files/manifest.h"
#include "lockstep/data/sampler.h"

namespace lockstep {

// The names of a checkpoint's files, besides kManifestFile.
constexpr const char* kTrainerStateFile = "trainer_state.json";

/// model.safetensors, model_1.safetensors, ...
std::string weights_file(std::size_t index);
/// model_shard-0000R-of-0000W.safetensors, model_1_shard-..., if each rank writes its parts. Not Hugging Face's
/// "model-00001-of-0000N.safetensors", whose tensors are whole.
std::string weights_shard_file(std::size_t index, int rank, int world_size);
/// The names of one model's shards in a checkpoint, in the order of ranks; empty if its weights are in one file.
std::vector<std::string> weights_shard_names(const Manifest& manifest, std::size_t index);
std::string generators_file(int rank);    ///< rng_state_RANK.safetensors
std::string positions_file(int rank);     ///< position_RANK.json
std::string rank_tensors_file(int rank);  ///< rank_state_RANK.safetensors
/// optimizer.safetensors, or optimizer-0000R-of-0000W.safetensors if each rank writes its parts; for further optimizers
/// optimizer_1.safetensors, ...
std::string optimizer_file(std::size_t index, bool is_sharded, int rank, int world_size);
/// The names of one optimizer's files in a checkpoint, in the order of ranks.
std::vector<std::string> optimizer_file_names(const Manifest& manifest, std::size_t index);
/// False for a name that callers may not use for a file, because it is not plain or is one of the names above.
bool is_free_file_name(const std::string& name);

std::string positions_json(const std::map<std::string, SamplerState>& samplers);
/// @throws Error  naming `path`
std::map<std::string, SamplerState> parse_positions(const nlohmann::json& json, const std::string& path);

}  // namespace lockstep
