#include "lockstep/parallel/fused/fuse_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/comm/hierarchical/host_layout.h"
#include "lockstep/parallel/features/features.h"
#include "lockstep/parallel/fused/update_plan.h"

namespace lockstep {
namespace {

using Owners = std::unordered_map<const c10::StorageImpl*, std::size_t>;

const c10::Storage& storage_of(const at::Tensor& parameter) {
  return parameter.unsafeGetTensorImpl()->unsafe_storage();
}

// How many parameters have their elements in each storage.
Owners owning_parameters(const GradientBuckets& gradients) {
  Owners owners;
  for (std::size_t i = 0; i < gradients.num_parameters(); ++i) {
    const at::Tensor& parameter = gradients.parameter(i);
    if (parameter.unsafeGetTensorImpl()->has_storage()) ++owners[storage_of(parameter).unsafeGetStorageImpl()];
  }
  return owners;
}

std::string name_of(const at::Tensor& parameter, const GradientBuckets& gradients) {
  for (std::size_t i = 0; i < gradients.num_parameters(); ++i) {
    if (gradients.parameter(i).is_same(parameter)) return "parameter \"" + gradients.name(i) + "\"";
  }
  return "a parameter that the module does not train";
}

}  // namespace

const char* to_string(FuseMode mode) {
  switch (mode) {
    case FuseMode::SharedWeights:
      return "shared weights";
    case FuseMode::ShardedState:
      return "sharded state";
    case FuseMode::Off:
      break;
  }
  return "off";
}

std::vector<std::string> lines_of(const FuseOptions& options) {
  const auto type = options.compute_dtype.value_or(c10::ScalarType::Float);
  return {fmt::format("stage {}", options.stage),
          fmt::format("share_weights {}", options.share_weights),
          fmt::format("gradient_dtype {}", c10::toString(options.gradient_dtype)),
          fmt::format("compute_dtype {}", c10::toString(type)),
          fmt::format("hybrid_shard {}", options.hybrid_shard),
          fmt::format("slots {}", options.slots),
          fmt::format("units {{{}}}", fmt::join(options.units, ", ")),
          fmt::format("reshard_after_forward {}", options.reshard_after_forward)};
}

std::string refusal_of_twice_listed(const FlatOptimizer& optimizer, const GradientBuckets& gradients) {
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
      return fmt::format(
          "the optimizer has {} twice, as parameters() does for a module that is registered twice, so each step "
          "updates it twice; give it each parameter once",
          name_of(parameter, gradients));
    }
  }
  return "";
}

// What a rank has of its own it has whole, which is what shards on its host are if it is alone there.
void check_hybrid_shard(const FuseOptions& options, const std::vector<FusedBucket>& buckets,
                        const GradientBuckets& gradients, Communicator& communicator) {
  if (!options.hybrid_shard) return;
  const std::string where = communicator.membership().where() + ", fuse";
  Features features;
  features.add(Feature::HybridShard);
  if (options.stage == 2) features.add(Feature::Stage2);
  features.require_together(where);
  const HostLayout layout(communicator.membership());
  const auto has_one_rank = [](const std::vector<int>& ranks) { return ranks.size() == 1; };
  if (std::all_of(layout.hosts.begin(), layout.hosts.end(), has_one_rank)) return;
  std::vector<at::Tensor> memory;
  for (const FusedBucket& bucket : buckets) memory.push_back(gradients[bucket.index].memory);
  if (plan_update(memory, communicator, options.share_weights, options.stage).shares_weights()) return;
  const char* reason = !options.share_weights ? "share_weights is false"
                       : !layout.equal        ? "hosts have unequal numbers of ranks"
                                              : "the engine shares no memory";
  throw Error(fmt::format("hybrid_shard would leave all weights on each of a host's ranks: {} (engine {})", reason,
                          communicator.engine()),
              where,
              "use the engines shm or hierarchical, which are chosen if none is named, with equally many ranks on each "
              "host; or full_shard (stage 3), which cuts the weights over all ranks");
}

void warn_of_kept_views(const std::vector<FusedBucket>& buckets, const GradientBuckets& gradients) {
  const Owners owners = owning_parameters(gradients);
  std::vector<std::string> names;
  for (const FusedBucket& bucket : buckets) {
    for (const std::size_t i : bucket.parameters) {
      const at::Tensor& parameter = gradients.parameter(i);
      if (!parameter.unsafeGetTensorImpl()->has_storage()) continue;  // nobody has read it yet
      const c10::Storage& storage = storage_of(parameter);
      if (storage.use_count() > owners.at(storage.unsafeGetStorageImpl())) names.push_back(gradients.name(i));
    }
  }
  if (names.empty()) return;
  log_warning(
      "fuse: something refers to the memory of parameter \"{}\"{}, such as a view (t(), detach(), data()) that the "
      "program has kept, or the graph of an earlier forward. Weights move to other memory now, and what refers to the "
      "old memory keeps today's values: take views after fuse, or in each forward",
      names.front(), names.size() == 1 ? "" : fmt::format(" and of {} more", names.size() - 1));
}

}  // namespace lockstep
