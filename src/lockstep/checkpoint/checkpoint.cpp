#include "lockstep/checkpoint/checkpoint.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
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
#include "lockstep/checkpoint/files/saved_weights.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kMaxPositionBytes = 16 << 20;

void require_fit(const SavedWeights& saved, const std::string& name, at::IntArrayRef sizes, at::ScalarType type) {
  const SavedWeights::Tensor& tensor = saved.tensor(name);
  if (tensor.sizes == sizes.vec() && tensor.type == type) return;
  throw Error(
      fmt::format("\"{}\" is {} of shape [{}] in the checkpoint but {} of shape [{}] in the model", name, tensor.dtype,
                  fmt::join(tensor.sizes, ", "), c10::toString(type), fmt::join(sizes.vec(), ", ")),
      saved.path(), "resume with the model of the saved run");
}

// Copies as many elements as `target` has, from `begin` on.
void copy_elements(const SavedWeights& saved, const std::string& name, std::int64_t begin, const at::Tensor& target) {
  const bool is_flat = target.is_contiguous();
  at::Tensor flat = is_flat ? target.detach().view({-1}) : at::empty({target.numel()}, target.options());
  saved.copy(name, begin, begin + target.numel(), flat);
  if (!is_flat) target.detach().copy_(flat.view(target.sizes()));
}

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
  if (!weights_shard_names(*manifest_, index).empty()) {
    throw Error(folder_ + " has its weights in parts, one for each rank", folder_,
                fmt::format("lockstep merge-weights {} FOLDER writes them as one file", folder_));
  }
  throw Error(folder_ + " has no weights", folder_, "resume from a checkpoint that has them");
}

std::size_t Checkpoint::number_of_weights(std::size_t index) const {
  return SavedWeights(folder_, *manifest_, index).tensors().size();
}

void Checkpoint::load_weights(const NamedTensors& targets, std::size_t index) const {
  const SavedWeights saved(folder_, *manifest_, index);
  for (const auto& [name, target] : targets) require_fit(saved, name, target.sizes(), target.scalar_type());
  if (saved.tensors().size() != targets.size()) {
    throw Error(
        fmt::format("the checkpoint has {} tensors, but the model has {}", saved.tensors().size(), targets.size()),
        saved.path(), "resume with the model of the saved run");
  }
  const at::NoGradGuard no_grad;
  for (const auto& [name, target] : targets) copy_elements(saved, name, 0, target);
  saved.require_whole();
}

void Checkpoint::load_weight_parts(const TensorParts& targets, std::size_t index) const {
  const SavedWeights saved(folder_, *manifest_, index);
  for (const TensorPart& part : targets) require_fit(saved, part.name, part.sizes, part.tensor.scalar_type());
  const at::NoGradGuard no_grad;
  for (const TensorPart& part : targets) copy_elements(saved, part.name, part.begin, part.tensor);
  saved.require_whole();
}

Checkpoint::OptimizerParts Checkpoint::optimizer_parts(std::size_t index) const {
  OptimizerParts parts;
  for (const std::string& name : optimizer_file_names(*manifest_, index)) {
    OptimizerContent content = read_optimizer_file(SafetensorsFile(folder_ + "/" + name));
    if (parts.groups.empty()) parts.groups = std::move(content.groups);
    parts.states.push_back(std::move(content.state));
  }
  if (!parts.states.empty()) return parts;
  throw Error(folder_ + " has no optimizer state", folder_, "resume from a checkpoint that has one");
}

OptimizerContent Checkpoint::optimizer(std::size_t index) const {
  OptimizerParts parts = optimizer_parts(index);
  OptimizerContent joined = join_optimizer_states(parts.states);
  joined.groups = std::move(parts.groups);
  return joined;
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
