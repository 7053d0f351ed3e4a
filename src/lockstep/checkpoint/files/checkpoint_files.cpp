#include "lockstep/checkpoint/files/checkpoint_files.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/text/affixes.h"
#include "lockstep/checkpoint/files/json_number.h"

namespace lockstep {
namespace {

constexpr const char* kTensorFile = ".safetensors";

// Index 0 has the plain name.
std::string numbered(const std::string& name, std::size_t index) {
  return index == 0 ? name : fmt::format("{}_{}", name, index);
}

}  // namespace

std::string generators_file(int rank) { return fmt::format("rng_state_{}.safetensors", rank); }

std::string positions_file(int rank) { return fmt::format("position_{}.json", rank); }

std::string rank_tensors_file(int rank) { return fmt::format("rank_state_{}.safetensors", rank); }

std::string weights_file(std::size_t index) { return numbered("model", index) + kTensorFile; }

std::string weights_shard_file(std::size_t index, int rank, int world_size) {
  return fmt::format("{}_shard-{:05}-of-{:05}{}", numbered("model", index), rank + 1, world_size, kTensorFile);
}

std::vector<std::string> weights_shard_names(const Manifest& manifest, std::size_t index) {
  const std::string begin = numbered("model", index) + "_shard-";
  std::vector<std::string> names;
  for (const auto& item : manifest.files) {  // sorted; numbers have leading zeros
    if (starts_with(item.first, begin) && ends_with(item.first, kTensorFile)) names.push_back(item.first);
  }
  return names;
}

std::string optimizer_file(std::size_t index, bool is_sharded, int rank, int world_size) {
  const std::string name = numbered("optimizer", index);
  if (!is_sharded) return name + kTensorFile;
  return fmt::format("{}-{:05}-of-{:05}{}", name, rank + 1, world_size, kTensorFile);
}

std::vector<std::string> optimizer_file_names(const Manifest& manifest, std::size_t index) {
  const std::string name = numbered("optimizer", index);
  std::vector<std::string> names;
  for (const auto& item : manifest.files) {             // sorted; numbers have leading zeros
    if (!ends_with(item.first, kTensorFile)) continue;  // a program's own file may begin with the same word
    if (item.first == name + kTensorFile || starts_with(item.first, name + "-")) names.push_back(item.first);
  }
  return names;
}

bool is_free_file_name(const std::string& name) {
  if (!is_manifest_name(name) || name[0] == '.') return false;
  const bool holds_tensors = ends_with(name, kTensorFile);
  for (const char* taken : {"model", "optimizer"}) {
    if (holds_tensors && starts_with(name, taken)) return false;
  }
  for (const char* taken : {kManifestFile, kTrainerStateFile, "rng_state_", "position_", "rank_state_"}) {
    if (starts_with(name, taken)) return false;
  }
  return true;
}

std::string positions_json(const std::map<std::string, SamplerState>& samplers) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [name, state] : samplers) {
    json[name] = {{"seed", state.seed},
                  {"epoch", state.epoch},
                  {"position", state.position},
                  {"dataset_size", state.dataset_size},
                  {"num_replicas", state.num_replicas}};
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::map<std::string, SamplerState> parse_positions(const nlohmann::json& json, const std::string& path) {
  std::map<std::string, SamplerState> samplers;
  try {
    for (const auto& [name, entry] : json.items()) {
      SamplerState& state = samplers[name];
      state.seed = whole_number_at<std::uint64_t>(entry, "seed", path);
      state.epoch = whole_number_at<std::int64_t>(entry, "epoch", path);
      state.position = whole_number_at<std::int64_t>(entry, "position", path);
      state.dataset_size = whole_number_at<std::int64_t>(entry, "dataset_size", path);
      state.num_replicas = whole_number_at<std::int64_t>(entry, "num_replicas", path);
      const bool is_sound =
          state.epoch >= 0 && state.position >= 0 && state.dataset_size >= 0 && state.num_replicas > 0;
      if (!is_sound) {
        throw Error(fmt::format("{} has a position that no training can have: {}", path, entry.dump().substr(0, 200)),
                    fmt::format("{}, field {:?}", path, name), "resume from another checkpoint");
      }
    }
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("{} holds no positions: {}", path, error.what()), path, "resume from another checkpoint");
  }
  return samplers;
}

}  // namespace lockstep
