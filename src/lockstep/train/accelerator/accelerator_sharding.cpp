// AcceleratorState: what an FSDP plugin asks for.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/train/accelerator/accelerator_state.h"
#include "lockstep/train/arguments/fsdp_arguments.h"

namespace lockstep {
namespace {

const char* const kPlugin = "Accelerator, fsdp_plugin";

// Whether the optimizer has any of the model's parameters.
bool updates(const torch::optim::Optimizer& optimizer, const DistributedDataParallelBase& model) {
  std::set<const c10::TensorImpl*> of_model;
  for (const auto& [name, parameter] : model.named_parameters()) of_model.insert(parameter.unsafeGetTensorImpl());
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (of_model.count(parameter.unsafeGetTensorImpl()) != 0) return true;
    }
  }
  return false;
}

FuseOptions options_of(const FullyShardedDataParallelPlugin& plugin) {
  FuseOptions how;
  static_cast<ShardingOptions&>(how) = plugin;
  const auto& types = plugin.transformer_cls_names_to_wrap;
  how.unit_types.insert(how.unit_types.end(), types.begin(), types.end());
  if (how.unit_min_params == 0) how.unit_min_params = plugin.min_num_params;
  if (how.sharding_strategy == ShardingStrategy::NoShard) {
    throw Error("sharding_strategy is NoShard", kPlugin, "leave the plugin out");
  }
  return how;
}

}  // namespace

std::optional<FullyShardedDataParallelPlugin> fsdp_plugin_of_environment() {
  const Sharding asked = sharding_of({}, kPlugin);
  if (asked.stage() < 2) return std::nullopt;
  FullyShardedDataParallelPlugin plugin;
  static_cast<ShardingOptions&>(plugin) = asked;
  plugin.transformer_cls_names_to_wrap.swap(plugin.unit_types);
  std::swap(plugin.min_num_params, plugin.unit_min_params);
  plugin.state_dict_type = asked.saves_shards ? StateDictType::Sharded : StateDictType::Full;
  return plugin;
}

void AcceleratorState::share_out(const FullyShardedDataParallelPlugin& plugin) {
  for (torch::optim::Optimizer* optimizer : optimizers_) {
    if (shared_out_.count(optimizer) != 0) continue;
    const std::vector<DistributedDataParallelBase*> all = wrappers();
    const auto is_updated = [&](DistributedDataParallelBase* model) { return updates(*optimizer, *model); };
    if (std::count_if(all.begin(), all.end(), is_updated) > 1) {
      throw Error("an optimizer has parameters of several models, of which the ranks could shard only one", kPlugin,
                  "build an optimizer for each model");
    }
    for (DistributedDataParallelBase* model : all) {
      if (!is_updated(model)) continue;
      const FusedStep fused = model->fuse(*optimizer, options_of(plugin));
      if (fused.mode() == FuseMode::Off) {
        throw Error("nothing can be sharded: " + fused.reason(), kPlugin,
                    "change what it names, or leave fsdp_plugin and ACCELERATE_USE_FSDP out");
      }
      shared_out_.insert(optimizer);
      break;
    }
  }
}

void AcceleratorState::require_shared_out() const {
  if (!optimizers_.empty() && shared_out_.size() == optimizers_.size()) return;
  throw Error(optimizers_.empty()
                  ? "backward was called without a prepared optimizer, which the ranks need to shard the model"
                  : "a prepared optimizer has parameters of no prepared model",
              kPlugin, "prepare model and optimizer, accelerator.prepare(net, adam), before the first backward");
}

}  // namespace lockstep
