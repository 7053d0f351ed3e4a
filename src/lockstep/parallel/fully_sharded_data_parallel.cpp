#include "lockstep/parallel/fully_sharded_data_parallel.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text/nearest_name.h"
#include "lockstep/detail/tensor/module_tensors.h"
#include "lockstep/parallel/features/features.h"

namespace lockstep::detail {
namespace {

const char* const kFullyShard = "fully_shard";

void check_policy(const MixedPrecisionPolicy& policy) {
  if (policy.param_dtype && *policy.param_dtype != at::kFloat && *policy.param_dtype != at::kBFloat16) {
    throw Error(fmt::format("mp_policy: param_dtype is {}", c10::toString(*policy.param_dtype)), kFullyShard,
                "choose BFloat16, in which processors compute, or leave it out");
  }
  if (policy.output_dtype && !c10::isFloatingType(*policy.output_dtype)) {
    throw Error(fmt::format("mp_policy: output_dtype is {}", c10::toString(*policy.output_dtype)), kFullyShard,
                "choose a floating-point type, or leave it out");
  }
}

// Units say what is gathered.
void check_units(const FullyShardOptions& options) {
  if (options.sharding_strategy == ShardingStrategy::NoShard) {
    throw Error("sharding_strategy is NoShard", kFullyShard,
                "wrap the module with DistributedDataParallel, whose fuse shards only the optimizer's state");
  }
  if (options.unit_min_params < 0) {
    throw Error(fmt::format("unit_min_params is {}", options.unit_min_params), kFullyShard,
                "give the number of elements from which a submodule is a unit, or 0");
  }
  const bool has_units =
      !options.units.empty() || !options.unit_types.empty() || options.unit_min_params > 0 || options.policy;
  Features features;
  if (options.sharding_strategy == ShardingStrategy::ShardGradOp) features.add(Feature::Stage2, "ShardGradOp");
  if (has_units) features.add(Feature::Units);
  features.require_together(kFullyShard);
}

void add_submodules(const torch::nn::Module& module, const std::string& prefix, const ShardingPolicy& policy,
                    std::vector<std::string>& units) {
  for (const auto& child : module.named_children()) {
    const std::string name = prefix + child.key();
    if (policy(name, *child.value())) units.push_back(name);
    add_submodules(*child.value(), name + ".", policy, units);
  }
}

// A name that is misspelt would let the parameter be shared out, although the program wants it left alone.
void check_ignored(const torch::nn::Module& module, const std::vector<std::string>& ignored) {
  std::vector<std::string> names = module.named_parameters().keys();
  const std::vector<std::string> of_buffers = module.named_buffers().keys();
  names.insert(names.end(), of_buffers.begin(), of_buffers.end());
  for (const std::string& name : ignored) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    throw Error(fmt::format("ignored_params names \"{}\", but the module has no such parameter or buffer{}", name,
                            did_you_mean(name, names)),
                kFullyShard, "write names as named_parameters() and named_buffers() have them");
  }
}

}  // namespace

std::vector<std::string> chosen_units(const torch::nn::Module& module, const FullyShardOptions& options) {
  check_ignored(module, options.ignored_params);
  check_units(options);
  std::vector<std::string> units = options.units;
  if (!options.policy) return units;
  const std::size_t named = units.size();
  add_submodules(module, "", options.policy, units);
  if (units.size() == named) {
    throw Error("the policy chooses no submodule", kFullyShard,
                "let it return true for the layers, or leave it out: then each numbered submodule is a unit");
  }
  return units;
}

DistributedDataParallelOptions ddp_options_of(const FullyShardOptions& options) {
  check_policy(options.mp_policy);
  DistributedDataParallelOptions ddp;
  ddp.process_group = options.process_group;
  ddp.bucket_cap_mb = options.bucket_cap_mb;
  ddp.parameters_and_buffers_to_ignore = options.ignored_params;
  ddp.compute_dtype = options.mp_policy.param_dtype.value_or(at::kFloat);
  return ddp;
}

void share_out(DistributedDataParallelBase& ddp, FlatOptimizer& optimizer, const FullyShardOptions& options,
               std::vector<std::string> units) {
  FuseOptions how;
  static_cast<ShardingOptions&>(how) = options;
  how.units = std::move(units);
  how.gradient_dtype = options.mp_policy.reduce_dtype.value_or(at::kFloat);
  const FusedStep fused = ddp.fuse(optimizer, how);
  if (fused.mode() != FuseMode::Off) return;
  throw Error("nothing can be sharded: " + fused.reason(),
              ddp.process_group().membership().where() + ", " + kFullyShard,
              "change what it names, or use DistributedDataParallel");
}

at::Tensor in_dtype(const at::Tensor& tensor, c10::ScalarType dtype) {
  return tensor.is_floating_point() ? tensor.to(dtype) : tensor;
}

}  // namespace lockstep::detail
