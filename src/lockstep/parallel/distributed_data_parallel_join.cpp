// DistributedDataParallel: ranks run out of inputs one after the other.
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/parallel/agreement/module_sync.h"
#include "lockstep/parallel/agreement/optimizer_sync.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/features/features.h"
#include "lockstep/parallel/fused/fused_update.h"
#include "lockstep/parallel/hooks/same_settings.h"
#include "lockstep/parallel/reducer/reducer.h"
#include "lockstep/parallel/slices/slices.h"
#include "lockstep/parallel/wrapping.h"
#include "lockstep/tensor/tensors_of.h"

namespace lockstep {

int DistributedDataParallelBase::join(const std::function<void()>& loop, JoinOptions options) {
  Features features;
  if (slices_) features.add(Feature::VirtualShards);
  if (replicas_may_differ()) features.add(Feature::DivergingHook);
  if (sharded_weights() != nullptr) features.add(Feature::Stage3);
  features.add(Feature::Join).require_together(communicator_->membership().where() + ", join");
  // Each rank divides its own part of a fused update.
  require_same_settings(*communicator_, "join",
                        {fmt::format("divide_by_initial_world_size {}", options.divide_by_initial_world_size)});
  JoinPeriod& period = reducer_->backward().context().join;
  period.begin(!options.divide_by_initial_world_size);
  loop();
  int last_active = communicator_->rank();
  bool was_through_early = false;
  for (bool all_joined = communicator_->world_size() == 1; !all_joined;) {
    last_active = period.lowest_active_rank();
    synchronise_buffers(last_active);
    all_joined = reducer_->shadow_backward();
    if (!all_joined && fuse_mode() != FuseMode::Off) all_joined = fused_->shadow_update();
    was_through_early = was_through_early || !all_joined;
  }
  period.end();
  if (communicator_->world_size() > 1) take_over_from(last_active, options, was_through_early);
  return last_active;
}

// A rank that finished early has missed updates of the weights and of the optimizers.
void DistributedDataParallelBase::take_over_from(int last, const JoinOptions& options, bool was_through_early) {
  std::vector<at::Tensor> all;
  for (const auto& entry : tensors_.parameters) {
    if (!fused_ || !fused_->covers(entry.tensor)) all.push_back(entry.tensor);
  }
  for (auto& buffer : buffers()) all.push_back(std::move(buffer));
  broadcast_coalesced(*communicator_, all, last);

  const auto optimizers = optimizers_of(tensors_of(tensors_.parameters), options.optimizers);
  const NamedTensor* missing = first_without_optimizer(tensors_.parameters, optimizers);
  const auto longs = at::TensorOptions().dtype(at::kLong);
  at::Tensor mine = at::empty({2}, longs), everyone = at::empty({communicator_->world_size() * 2}, longs);
  mine.data_ptr<std::int64_t>()[0] = static_cast<std::int64_t>(optimizers.size());
  mine.data_ptr<std::int64_t>()[1] = was_through_early ? 1 : 0;
  communicator_->all_gather(everyone, mine);
  bool is_uneven = false;
  for (int rank = 0; rank < communicator_->world_size(); ++rank) {
    const std::int64_t* of_rank = everyone.data_ptr<std::int64_t>() + 2 * rank;
    is_uneven = is_uneven || of_rank[1] != 0;
    if (of_rank[0] == everyone.data_ptr<std::int64_t>()[0]) continue;
    throw Error(fmt::format("rank {} knows {} optimizers over the module, and rank 0 knows {}", rank, of_rank[0],
                            everyone.data_ptr<std::int64_t>()[0]),
                communicator_->membership().where() + ", join",
                "build the same optimizers, and name the same ones in JoinOptions::optimizers, on every rank");
  }
  for (torch::optim::Optimizer* optimizer : optimizers) broadcast_optimizer(*communicator_, *optimizer, last);
  if (missing != nullptr && is_uneven && communicator_->rank() == 0) {
    log_warning(
        "join: ranks made different numbers of steps, and what updates parameter \"{}\" is not known: if that "
        "optimizer keeps state, such as momentum, it differs between the ranks now, and so will the weights. Name it "
        "in JoinOptions::optimizers",
        missing->name);
  }
}

}  // namespace lockstep
