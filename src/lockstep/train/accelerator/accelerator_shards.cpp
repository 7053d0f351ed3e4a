// AcceleratorState: weights that the ranks save in parts, and weights that lie in shards (stage 3).
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/replica_check.h"
#include "lockstep/train/accelerator/accelerator_state.h"

namespace lockstep {
namespace {

// Parts by the tensor that they are of, which may have several names.
using PartsOfTensors = std::map<const c10::TensorImpl*, const TensorPart*>;

PartsOfTensors by_tensor(const TensorParts& parts, const NamedTensors& tensors) {
  std::map<std::string, const TensorPart*> by_name;
  for (const TensorPart& part : parts) by_name[part.name] = &part;
  PartsOfTensors result;
  for (const auto& [name, tensor] : tensors) {
    const auto found = by_name.find(name);
    if (found != by_name.end()) result[tensor.unsafeGetTensorImpl()] = found->second;
  }
  return result;
}

TensorPart renamed(TensorPart part, const std::string& name) {
  part.name = name;
  return part;
}

TensorPart all_of(const std::string& name, const at::Tensor& tensor) {
  return {name, tensor.sizes().vec(), 0, tensor.numel(), tensor};
}

// Weights without elements are in rank 0's file.
bool is_to_save(const TensorPart& part, int rank) {
  const bool is_empty = std::find(part.sizes.begin(), part.sizes.end(), 0) != part.sizes.end();
  return part.begin < part.end || (is_empty && rank == 0);
}

enum class Others { LeftOut, Whole };

// This rank's elements of weights in shards, under the names of `weights`. @param others  what is in no shards
TensorParts parts_of_weights(const TensorParts& shards, const NamedTensors& weights, Others others) {
  const PartsOfTensors in_shards = by_tensor(shards, weights);
  TensorParts parts;
  for (const auto& [name, tensor] : weights) {
    const auto shard = in_shards.find(tensor.unsafeGetTensorImpl());
    if (shard != in_shards.end()) {
      parts.push_back(renamed(*shard->second, name));
    } else if (others == Others::Whole) {
      parts.push_back(all_of(name, tensor));
    }
  }
  return parts;
}

}  // namespace

TensorParts parts_to_save(const ModuleTensors& module, const TensorParts& shards, int rank, int world_size) {
  NamedTensors parameters;
  for (const NamedTensor& parameter : module.parameters) parameters.emplace_back(parameter.name, parameter.tensor);
  const PartsOfTensors in_shards = by_tensor(shards, parameters);
  TensorParts own;
  NamedTensors others;
  for (const auto& [name, parameter] : parameters) {
    const auto shard = in_shards.find(parameter.unsafeGetTensorImpl());
    if (shard == in_shards.end()) {
      others.emplace_back(name, parameter);
    } else if (is_to_save(*shard->second, rank)) {
      own.push_back(renamed(*shard->second, name));
    }
  }
  for (TensorPart& part : parts_of_rank(others, rank, world_size)) own.push_back(std::move(part));
  if (rank != 0) return own;
  for (const NamedTensor& buffer : module.buffers()) own.push_back(all_of(buffer.name, buffer.tensor));
  return own;
}

std::vector<DistributedDataParallelBase*> AcceleratorState::wrappers() const {
  std::vector<DistributedDataParallelBase*> all;
  for (const auto& wrapper : wrappers_) all.push_back(&wrapper());
  return all;
}

bool AcceleratorState::has_shards() const {
  return std::any_of(wrappers_.begin(), wrappers_.end(),
                     [](const auto& wrapper) { return !wrapper().fused_step().weight_parts().empty(); });
}

std::vector<TensorParts> AcceleratorState::weight_parts(int rank, int world_size, Differing differing) const {
  std::vector<TensorParts> all;
  for (std::size_t i = 0; i < models_.size(); ++i) {
    if (!wrappers_[i]().replicas_may_differ()) {
      all.push_back(parts_to_save(models_[i](), wrappers_[i]().fused_step().weight_parts(), rank, world_size));
      continue;
    }
    if (differing == Differing::Refused) {
      throw Error("weights cannot be saved in parts: the communication hook lets the ranks' weights differ",
                  "Accelerator, save_state", "save with StateDictType::Full");
    }
    TensorParts& parts = all.emplace_back();
    if (rank != 0) continue;
    for (const auto& [name, tensor] : tensors_to_save(models_[i]())) parts.push_back(all_of(name, tensor));
  }
  return all;
}

void AcceleratorState::load_shards(const Checkpoint& checkpoint, std::size_t model, const NamedTensors& weights) {
  const std::size_t saved = checkpoint.number_of_weights(model);
  if (saved != weights.size()) {
    throw Error(fmt::format("the checkpoint has {} tensors, the model {}", saved, weights.size()), checkpoint.path(),
                "resume with the model of the saved run");
  }
  wrappers_[model]().fused_step().write_weight_parts([&](const TensorParts& shards) {
    checkpoint.load_weight_parts(parts_of_weights(shards, weights, Others::Whole), model);
  });
}

void AcceleratorState::check_shards(const Checkpoint& checkpoint, const std::vector<NamedTensors>& weights,
                                    Communicator& group) {
  for (std::size_t i = 0; i < wrappers_.size(); ++i) {
    const TensorParts shards = wrappers_[i]().fused_step().weight_parts();
    if (shards.empty()) continue;
    const NamedTensors loaded = i < weights.size() ? weights[i] : NamedTensors();  // a hook may have loaded it
    check_parts_as_saved(group, checkpoint, parts_of_weights(shards, loaded, Others::LeftOut),
                         fmt::format("weights of model {} after loading {}", i, checkpoint.path()), i);
  }
}

}  // namespace lockstep
