#include "lockstep/parallel/wrapper/uneven_loop.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/parallel/agreement/module_sync.h"
#include "lockstep/parallel/agreement/optimizer_sync.h"
#include "lockstep/parallel/features/features.h"
#include "lockstep/parallel/hooks/same_settings.h"
#include "lockstep/tensor/tensors_of.h"

namespace lockstep {
namespace {

// @return  whether some rank has taken part in steps of others. @throws Error  if ranks know different optimizers
bool was_uneven(Communicator& communicator, std::size_t optimizers, bool was_through_early) {
  const auto longs = at::TensorOptions().dtype(at::kLong);
  at::Tensor mine = at::empty({2}, longs), everyone = at::empty({communicator.world_size() * 2}, longs);
  mine.data_ptr<std::int64_t>()[0] = static_cast<std::int64_t>(optimizers);
  mine.data_ptr<std::int64_t>()[1] = was_through_early ? 1 : 0;
  communicator.all_gather(everyone, mine);
  bool is_uneven = false;
  for (int rank = 0; rank < communicator.world_size(); ++rank) {
    const std::int64_t* of_rank = everyone.data_ptr<std::int64_t>() + 2 * rank;
    is_uneven = is_uneven || of_rank[1] != 0;
    if (of_rank[0] == everyone.data_ptr<std::int64_t>()[0]) continue;
    throw Error(fmt::format("rank {} knows {} optimizers over the module, and rank 0 knows {}", rank, of_rank[0],
                            everyone.data_ptr<std::int64_t>()[0]),
                communicator.membership().where() + ", join",
                "build the same optimizers, and name the same ones in JoinOptions::optimizers, on every rank");
  }
  return is_uneven;
}

// A rank that finished early has missed updates of the weights and of the optimizers.
void take_over_from(int last, DistributedReplica& replica, const JoinOptions& options, bool was_through_early) {
  Communicator& communicator = replica.communicator();
  const std::vector<NamedTensor>& parameters = replica.parameters();
  const FusedUpdate* const fused = replica.update();
  std::vector<at::Tensor> all;
  for (const auto& entry : parameters) {
    if (fused == nullptr || !fused->covers(entry.tensor)) all.push_back(entry.tensor);
  }
  for (auto& buffer : replica.buffers()) all.push_back(std::move(buffer));
  broadcast_coalesced(communicator, all, last);

  const auto optimizers = optimizers_of(tensors_of(parameters), options.optimizers);
  const NamedTensor* missing = first_without_optimizer(parameters, optimizers);
  const bool is_uneven = was_uneven(communicator, optimizers.size(), was_through_early);
  for (torch::optim::Optimizer* optimizer : optimizers) broadcast_optimizer(communicator, *optimizer, last);
  if (missing != nullptr && is_uneven && communicator.rank() == 0) {
    log_warning(
        "join: ranks made different numbers of steps, and what updates parameter \"{}\" is not known: if that "
        "optimizer keeps state, such as momentum, it differs between the ranks now, and so will the weights. Name it "
        "in JoinOptions::optimizers",
        missing->name);
  }
}

}  // namespace

int run_uneven_loop(DistributedReplica& replica, const std::function<void()>& loop, const JoinOptions& options) {
  Communicator& communicator = replica.communicator();
  Features features;
  if (replica.slices() != nullptr) features.add(Feature::VirtualShards);
  if (replica.hook() != nullptr && !replica.hook()->allows_join()) features.add(Feature::DivergingHook);
  if (sharded_weights_of(replica.update()) != nullptr) features.add(Feature::Stage3);
  features.add(Feature::Join).require_together(communicator.membership().where() + ", join");
  // Each rank divides its own part of a fused update.
  require_same_settings(communicator, "join",
                        {fmt::format("divide_by_initial_world_size {}", options.divide_by_initial_world_size)});
  JoinPeriod& period = replica.reducer().backward().context().join;
  period.begin(!options.divide_by_initial_world_size);
  loop();
  int last_active = communicator.rank();
  bool was_through_early = false;
  for (bool all_joined = communicator.world_size() == 1; !all_joined;) {
    last_active = period.lowest_active_rank();
    replica.synchronise_buffers(last_active);
    all_joined = replica.reducer().shadow_backward();
    if (!all_joined) {
      if (FusedUpdate* const fused = replica.update()) all_joined = fused->shadow_update();
    }
    was_through_early = was_through_early || !all_joined;
  }
  period.end();
  if (communicator.world_size() > 1) take_over_from(last_active, replica, options, was_through_early);
  return last_active;
}

}  // namespace lockstep
