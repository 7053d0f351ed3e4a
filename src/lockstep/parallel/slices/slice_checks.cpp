#include "lockstep/parallel/slices/slice_checks.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep {

void check_slices(const DistributedDataParallelOptions& options, const ModuleTensors& tensors,
                  const Communicator& communicator) {
  const auto refuse = [&](const std::string& what, const std::string& fix) {
    throw Error(what, communicator.membership().where() + ", virtual_shards", fix);
  };
  const std::string without = ", or leave virtual_shards out";
  if (options.virtual_shards < communicator.world_size()) {
    refuse(fmt::format("{} virtual shards for {} ranks: a rank would have none", options.virtual_shards,
                       communicator.world_size()),
           "take at least as many shards as ranks");
  }
  const auto refuse_device = [&](const std::string& what, c10::Device device) {
    if (device.is_cpu()) return;
    refuse(what + " on " + device.str() + ", whose kernels promise no fixed order of additions",
           "train on the CPU" + without);
  };
  refuse_device("virtual shards", communicator.device());
  // The group may be of the CPU, with another engine beside it for devices.
  for (const NamedTensor& parameter : tensors.parameters) {
    refuse_device("virtual shards with parameter \"" + parameter.name + "\"", parameter.tensor.device());
  }
  if (options.static_graph) {
    refuse("static_graph with virtual shards, whose backwards hold no bucket back", "leave static_graph out");
  }
  if (!options.broadcast_buffers) {
    refuse("broadcast_buffers = false with virtual shards: buffers of each rank depend on the number of ranks",
           "leave broadcast_buffers on" + without);
  }
  if (!options.parameters_and_buffers_to_ignore.empty()) {
    refuse(fmt::format("\"{}\" is ignored: what is not synchronised depends on the number of ranks",
                       options.parameters_and_buffers_to_ignore.front()),
           "leave parameters_and_buffers_to_ignore empty" + without);
  }
  for (const NamedTensor& parameter : tensors.parameters) {
    if (!parameter.tensor.requires_grad()) continue;
    const at::ScalarType type = parameter.tensor.scalar_type();
    if (type != at::kFloat && type != at::kDouble) {
      refuse(fmt::format("parameter \"{}\" is of type {}", parameter.name, c10::toString(type)),
             "use fp32 or fp64 parameters; autocast may compute in bf16");
    }
    for (const c10::TensorImpl* sparse : tensors.sparse) {
      if (sparse == parameter.tensor.unsafeGetTensorImpl()) {
        refuse("parameter \"" + parameter.name + "\" has sparse gradients, which the ranks exchange row by row",
               "build the embedding with sparse(false)" + without);
      }
    }
  }
}

void refuse_with_slices(const Communicator& communicator, const std::string& call, const std::string& why) {
  throw Error(call + " with virtual shards, " + why, communicator.membership().where() + ", virtual_shards",
              "leave out " + call + ", or virtual_shards");
}

}  // namespace lockstep
