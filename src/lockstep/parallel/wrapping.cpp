#include "lockstep/parallel/wrapping.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/parallel/agreement/rank_difference.h"
#include "lockstep/parallel/deferred/deferred_parameters.h"
#include "lockstep/parallel/fused/weights/read_watch.h"

namespace lockstep {
namespace {

std::string names_of_sparse(const ModuleTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& entry : tensors.parameters) {
    if (is_sparse(tensors, entry)) names.push_back(entry.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

bool is_sparse(const ModuleTensors& tensors, const NamedTensor& parameter) {
  const auto& sparse = tensors.sparse;
  return std::find(sparse.begin(), sparse.end(), parameter.tensor.unsafeGetTensorImpl()) != sparse.end();
}

ReducerOptions reducer_options(const DistributedDataParallelOptions& options, const Communicator& carrier) {
  ReducerOptions result;
  // Each bucket of a device is a kernel of NCCL, whose bandwidth needs large ones, also between hosts.
  const bool is_small = !carrier.membership().on_one_host() && carrier.device().is_cpu();
  if (is_small) result.bucket_caps = BucketCaps::between_hosts();
  result.static_graph = options.static_graph;
  result.counts_updates = options.virtual_shards != 0;
  if (options.bucket_cap_mb != 0) {
    const auto cap_bytes = static_cast<std::int64_t>(options.bucket_cap_mb * 1024 * 1024);
    result.bucket_caps = {cap_bytes, cap_bytes};
  }
  return result;
}

ReducerParameters reducer_parameters(const ModuleTensors& tensors) {
  ReducerParameters result;
  for (const auto& entry : tensors.parameters) {
    auto& kind = !entry.tensor.requires_grad() ? result.frozen
                 : is_sparse(tensors, entry)   ? result.sparse
                                               : result.dense;
    kind.push_back(entry);
  }
  return result;
}

void check_equal_options(Communicator& communicator, const DistributedDataParallelOptions& options,
                         const ModuleTensors& tensors) {
  if (communicator.world_size() == 1) return;
  const auto difference =
      first_difference(communicator, {fmt::format("init_sync = {}", options.init_sync),
                                      fmt::format("broadcast_buffers = {}", options.broadcast_buffers),
                                      fmt::format("static_graph = {}", options.static_graph),
                                      fmt::format("watch_replicas = {}", options.watch_replicas),
                                      fmt::format("bucket_cap_mb = {}", options.bucket_cap_mb),
                                      fmt::format("virtual_shards = {}", options.virtual_shards),
                                      fmt::format("parameters_and_buffers_to_ignore = {{{}}}",
                                                  fmt::join(options.parameters_and_buffers_to_ignore, ", ")),
                                      fmt::format("sparse gradients of {{{}}}", names_of_sparse(tensors))});
  if (!difference) return;
  throw Error("the ranks wrap the module with different options: " + difference->text(),
              communicator.membership().where() + ", DistributedDataParallel",
              "give the same DistributedDataParallelOptions on every rank");
}

std::shared_ptr<Communicator> carrier_of_gradients(std::shared_ptr<Communicator> group, const ModuleTensors& tensors) {
  for (const auto& entry : tensors.parameters) {
    if (!entry.tensor.requires_grad()) continue;
    Communicator& carrier = group->carrier(entry.tensor.device());
    return {std::move(group), &carrier};
  }
  return group;
}

void check_trainable(const Communicator& communicator, const std::vector<NamedTensor>& parameters) {
  const std::string where = communicator.membership().where() + ", DistributedDataParallel";
  bool any = false;
  for (const auto& entry : parameters) {
    if (is_watched(entry.tensor) && !DeferredParameters::all().find(entry.tensor)) {
      throw Error(fmt::format("parameter \"{}\" is already sharded by an earlier wrapper (stage 3)", entry.name), where,
                  "wrap a model once: fully_shard takes all of it, and its options name the units; or call unfuse() of "
                  "what the earlier fuse has returned on every rank first");
    }
    if (entry.tensor.device() != communicator.device()) {
      throw Error(fmt::format("parameter \"{}\" is on {}, but engine {} of this rank works on {}", entry.name,
                              entry.tensor.device().str(), communicator.engine(), communicator.device().str()),
                  where, "move the whole module to one device; use_local_device() gives each rank its own");
    }
    if (!entry.tensor.requires_grad()) continue;
    any = true;
    if (!c10::isFloatingType(entry.tensor.scalar_type())) {
      throw Error(fmt::format("parameter \"{}\" is of type {}", entry.name, entry.tensor.toString()), where,
                  "use fp32, fp64, fp16 or bf16 parameters, or name it in parameters_and_buffers_to_ignore");
    }
  }
  if (!any) {
    throw Error("the module has no parameter that requires a gradient", where,
                "data parallelism is for training: use the module itself, or unfreeze a parameter");
  }
}

}  // namespace lockstep
