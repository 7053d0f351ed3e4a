#include "lockstep/parallel/backward/backward_context.h"

namespace lockstep {
namespace {

// Beginning with the dense ones, so that these have their indices.
std::vector<NamedTensor> all_of(const ReducerParameters& parameters) {
  std::vector<NamedTensor> all = trained_of(parameters);
  all.insert(all.end(), parameters.frozen.begin(), parameters.frozen.end());
  return all;
}

}  // namespace

std::vector<NamedTensor> trained_of(const ReducerParameters& parameters) {
  std::vector<NamedTensor> trained = parameters.dense;
  trained.insert(trained.end(), parameters.sparse.begin(), parameters.sparse.end());
  return trained;
}

BackwardContext::BackwardContext(std::shared_ptr<Communicator> group, const ReducerParameters& parameters,
                                 bool counts_updates)
    : communicator(std::move(group)),
      flags(parameters.dense.size(), communicator->world_size()),
      facts(flags, counts_updates),
      reduction(average_by_all_reduce(communicator)),
      replicas(all_of(parameters)) {}

std::optional<std::uint32_t> BackwardContext::look_at_replicas() {
  const std::uint32_t bits = replicas.look();
  return join.is_on() ? std::nullopt : std::optional<std::uint32_t>(bits);
}

}  // namespace lockstep
