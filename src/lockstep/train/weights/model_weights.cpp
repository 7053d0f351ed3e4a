#include "lockstep/train/weights/model_weights.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/joined_weights.h"
#include "lockstep/checkpoint/replica_check.h"
#include "lockstep/comm/gather_texts.h"
#include "lockstep/train/arguments/fsdp_arguments.h"
#include "lockstep/train/weights/weight_shards.h"

namespace lockstep {
namespace {

TensorPart whole_part(const std::string& name, const at::Tensor& tensor) {
  return {name, tensor.sizes().vec(), 0, tensor.numel(), tensor};
}

bool is_sound(const at::Tensor& tensor) {
  return !tensor.is_floating_point() || at::isfinite(tensor).all().item<bool>();
}

}  // namespace

// The parameters of which each rank has all elements.
NamedTensors ModelWeights::whole_parameters() const {
  std::set<std::string> shared;
  if (context_.shards) {
    for (const TensorPart& part : context_.shards->parts()) shared.insert(part.name);
  }
  NamedTensors whole;
  for (const NamedTensor& parameter : context_.options.model->tensors().parameters) {
    if (shared.count(parameter.name) == 0) whole.emplace_back(parameter.name, parameter.tensor);
  }
  return whole;
}

NamedTensors ModelWeights::buffers() const {
  NamedTensors buffers;
  for (const NamedTensor& buffer : context_.options.model->tensors().buffers()) {
    buffers.emplace_back(buffer.name, buffer.tensor);
  }
  return buffers;
}

// The part of the weights that this rank saves. Buffers are saved whole, by rank 0: other ranks may have other values
// in them.
TensorParts ModelWeights::own_share() const {
  const bool is_rank_0 = context_.rank() == 0;
  TensorParts share = parts_of_rank(whole_parameters(), context_.rank(), context_.world_size());
  if (context_.shards) {
    for (TensorPart& part : context_.shards->parts()) {
      const bool is_empty = part.begin == part.end;
      const bool has_elements = std::find(part.sizes.begin(), part.sizes.end(), 0) == part.sizes.end();
      if (!is_empty || (is_rank_0 && !has_elements)) share.push_back(std::move(part));
    }
  }
  if (!is_rank_0) return share;
  for (const auto& [name, tensor] : buffers()) share.push_back(whole_part(name, tensor));
  return share;
}

void ModelWeights::add_to(CheckpointContent& content) const {
  const bool saves_shards = sharding_of(context_.args(), context_.where()).saves_shards;
  if (saves_shards || context_.shards) {
    content.weight_parts = {own_share()};
    content.joins_weight_parts = !saves_shards;
  } else if (context_.rank() == 0) {
    content.weights = weights_of(*context_.options.model);
  }
}

void ModelWeights::load(const Checkpoint& checkpoint, const std::string& what) const {
  if (context_.shards) return load_shards(checkpoint, what);
  const NamedTensors weights = weights_of(*context_.options.model);
  checkpoint.load_weights(weights);
  if (context_.group) check_replicas_equal(*context_.group, weights, what);
}

void ModelWeights::load_shards(const Checkpoint& checkpoint, const std::string& what) const {
  TensorParts whole;
  for (const NamedTensors& tensors : {whole_parameters(), buffers()}) {
    for (const auto& [name, tensor] : tensors) whole.push_back(whole_part(name, tensor));
  }
  context_.shards->write_parts([&](const TensorParts& shards) {
    const std::size_t wanted = shards.size() + whole.size();
    if (checkpoint.number_of_weights() != wanted) {
      throw Error(fmt::format("the checkpoint has {} tensors, the model {}", checkpoint.number_of_weights(), wanted),
                  checkpoint.path(), "resume with the model of the saved run");
    }
    TensorParts all = shards;
    all.insert(all.end(), whole.begin(), whole.end());
    checkpoint.load_weight_parts(all);
    check_parts_as_saved(*context_.group, checkpoint, all, what);
  });
}

void ModelWeights::save(const std::string& path, const std::function<void()>& finish) const {
  write_joined_weights(*context_.group, path, own_share(), finish);
}

std::string ModelWeights::first_unsound() const {
  const at::NoGradGuard no_grad;
  std::string found;
  for (const auto& [name, tensor] : whole_parameters()) {
    if (found.empty() && !is_sound(tensor)) found = name;
  }
  if (!context_.shards) return found;
  for (const TensorPart& part : context_.shards->parts()) {
    if (found.empty() && !is_sound(part.tensor)) found = part.name;
  }
  for (const std::string& name : gather_texts(*context_.group, found)) {
    if (!name.empty()) return name;
  }
  return "";
}

}  // namespace lockstep
