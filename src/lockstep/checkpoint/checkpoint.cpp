#include "lockstep/checkpoint/checkpoint.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/files/json_file.h"
#include "lockstep/checkpoint/checkpoint_search.h"
#include "lockstep/checkpoint/files/checkpoint_files.h"
#include "lockstep/checkpoint/files/manifest.h"
#include "lockstep/checkpoint/files/optimizer_file.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kMaxPositionBytes = 16 << 20;

}  // namespace

Checkpoint::Checkpoint(const std::string& folder, Verify verify)
    : folder_(folder), manifest_(std::make_shared<const Manifest>(read_manifest(folder))) {
  check_files(folder_, *manifest_, verify == Verify::Checksums);
}

std::int64_t Checkpoint::step() const { return manifest_->step; }

int Checkpoint::world_size() const { return manifest_->world_size; }

bool Checkpoint::has_file(const std::string& name) const { return manifest_->files.count(name) != 0; }

std::string Checkpoint::file(const std::string& name) const {
  if (has_file(name)) return read_file(folder_ + "/" + name);
  throw Error(fmt::format("there is no {} in {}", name, folder_), folder_, "resume from a checkpoint that has it");
}

TrainerState Checkpoint::trainer_state() const {
  return parse_trainer_state(file(kTrainerStateFile), folder_ + "/" + kTrainerStateFile);
}

SafetensorsFile Checkpoint::weights(std::size_t index) const {
  if (has_file(weights_file(index))) return SafetensorsFile(folder_ + "/" + weights_file(index));
  throw Error(folder_ + " has no weights", folder_, "resume from a checkpoint that has them");
}

void Checkpoint::load_weights(const NamedTensors& targets, std::size_t index) const {
  const SafetensorsFile saved = weights(index);
  for (const auto& [name, target] : targets) {
    const auto& entry = saved.entry(name);
    if (entry.shape == target.sizes().vec() && dtype_of_safetensors(entry.dtype) == target.scalar_type()) continue;
    throw Error(fmt::format("\"{}\" is {} of shape [{}] in the checkpoint and {} of shape {} in the model", name,
                            entry.dtype, fmt::join(entry.shape, ", "), c10::toString(target.scalar_type()),
                            fmt::format("[{}]", fmt::join(target.sizes(), ", "))),
                saved.path(), "resume with the model of the saved run");
  }
  if (saved.entries().size() != targets.size()) {
    throw Error(fmt::format("the checkpoint has {} tensors, the model {}", saved.entries().size(), targets.size()),
                saved.path(), "resume with the model of the saved run");
  }
  const at::NoGradGuard no_grad;
  for (const auto& [name, target] : targets) target.detach().copy_(saved.tensor(name));
  saved.require_whole();
}

OptimizerContent Checkpoint::optimizer(std::size_t index) const {
  std::vector<OptimizerContent> parts;
  for (const std::string& name : optimizer_file_names(*manifest_, index)) {
    parts.push_back(read_optimizer_file(SafetensorsFile(folder_ + "/" + name)));
  }
  if (parts.empty()) throw Error(folder_ + " has no optimizer state", folder_, "resume from a checkpoint that has one");
  return join_optimizer_files(parts);
}

NamedTensors Checkpoint::tensors_of(const std::string& file) const {
  NamedTensors tensors;
  if (!has_file(file)) return tensors;
  const SafetensorsFile saved(folder_ + "/" + file);
  for (const SafetensorsEntry& entry : saved.entries()) tensors.emplace_back(entry.name, saved.tensor(entry.name));
  return tensors;
}

NamedTensors Checkpoint::generators(int rank) const { return tensors_of(generators_file(rank)); }

NamedTensors Checkpoint::rank_tensors(int rank) const { return tensors_of(rank_tensors_file(rank)); }

std::map<std::string, SamplerState> Checkpoint::samplers(int rank) const {
  const std::string name = positions_file(rank);
  if (!has_file(name)) return {};
  const std::string path = folder_ + "/" + name;
  return parse_positions(*read_json_object(path, kMaxPositionBytes), path);
}

}  // namespace lockstep
