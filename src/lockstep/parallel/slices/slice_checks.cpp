#include "lockstep/parallel/slices/slice_checks.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/parallel/features/features.h"
#include "lockstep/parallel/wrapping.h"

namespace lockstep {
namespace {

Features features_of(const DistributedDataParallelOptions& options, const ModuleTensors& tensors,
                     const Communicator& communicator) {
  Features features;
  features.add(Feature::VirtualShards);
  if (options.static_graph) features.add(Feature::StaticGraph);
  if (!options.broadcast_buffers) features.add(Feature::UnsentBuffers);
  if (!options.parameters_and_buffers_to_ignore.empty()) {
    features.add(Feature::IgnoredTensors,
                 fmt::format("\"{}\", which is ignored", options.parameters_and_buffers_to_ignore.front()));
  }
  // The group may be of the CPU, with another engine beside it for devices.
  for (const NamedTensor& parameter : tensors.parameters) {
    const c10::Device device = parameter.tensor.device();
    if (parameter.tensor.requires_grad() && is_sparse(tensors, parameter) && !features.has(Feature::SparseGradients)) {
      features.add(Feature::SparseGradients, fmt::format("sparse gradients (parameter \"{}\")", parameter.name));
    }
    if (!device.is_cpu() && !features.has(Feature::Devices)) {
      features.add(Feature::Devices, fmt::format("devices (parameter \"{}\" on {})", parameter.name, device.str()));
    }
  }
  if (!communicator.device().is_cpu()) {
    features.add(Feature::Devices, fmt::format("devices (a group on {})", communicator.device().str()));
  }
  return features;
}

}  // namespace

void check_slices(const DistributedDataParallelOptions& options, const ModuleTensors& tensors,
                  const Communicator& communicator) {
  const std::string where = communicator.membership().where() + ", virtual_shards";
  if (options.virtual_shards < communicator.world_size()) {
    throw Error(fmt::format("{} virtual shards are too few for {} ranks: a rank would have none",
                            options.virtual_shards, communicator.world_size()),
                where, "use at least as many shards as ranks");
  }
  features_of(options, tensors, communicator).require_together(where);
  for (const NamedTensor& parameter : tensors.parameters) {
    if (!parameter.tensor.requires_grad()) continue;
    const at::ScalarType type = parameter.tensor.scalar_type();
    if (type == at::kFloat || type == at::kDouble) continue;
    throw Error(fmt::format("parameter \"{}\" is of type {}", parameter.name, c10::toString(type)), where,
                "use fp32 or fp64 parameters; autocast may compute in bf16");
  }
}

}  // namespace lockstep
