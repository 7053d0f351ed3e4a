// FusedUpdate: takes over buckets and weights, and gives them back.
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/parallel/agreement/optimizer_state.h"
#include "lockstep/parallel/fused/fused_update.h"
#include "lockstep/parallel/update/update_maker.h"

namespace lockstep {

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

namespace {

// As after a backward without `fuse`: the averages, and what this rank has added since.
void show_averages(GradientBuckets& gradients, const std::vector<at::Tensor>& averages) {
  for (std::size_t i = 0; i < averages.size(); ++i) {
    if (!averages[i].defined()) continue;
    gradients.take(i);
    gradients.place(i).add_(averages[i]);
    gradients.show(i);
  }
}

}  // namespace

FusedUpdate::FusedUpdate(FlatOptimizer& optimizer, Reducer& reducer, std::shared_ptr<Communicator> communicator)
    : context_(optimizer, reducer, std::move(communicator)),
      stale_(context_.agreement.any()),
      selection_(context_.gradients.num_parameters()) {}

FusedUpdate::~FusedUpdate() { release(is_active_ && context_.pass->memory_stays()); }

std::unique_ptr<FusedUpdate> FusedUpdate::make(FlatOptimizer& optimizer, Reducer& reducer,
                                               const std::shared_ptr<Communicator>& communicator, FuseOptions options,
                                               std::string& reason, const Slices* slices) {
  std::unique_ptr<FusedUpdate> fused(new FusedUpdate(optimizer, reducer, communicator));
  UpdateMaker maker(fused->context_, fused->parts_, std::move(options), slices);
  reason = maker.refusal();
  if (!reason.empty()) return nullptr;
  fused->is_active_ = true;
  try {
    maker.make(*fused);
  } catch (const Error& error) {
    // Memory is short on some rank, and all ranks know it. If instead the group has ended, the next call reports that.
    reason = error.happened();
    const bool group_has_ended = cause_of(error) != nullptr;
    fused->release(fused->context_.pass->stays_unmade(group_has_ended));
    fused->context_.pass->abandon(std::current_exception(), group_has_ended);
    return nullptr;
  }
  return fused;
}

void FusedUpdate::release(bool memory_stays) noexcept {
  if (!std::exchange(is_active_, false)) return;
  if (context_.optimizer.step_delegate() == this) context_.optimizer.set_step_delegate(nullptr);
  try {
    const at::NoGradGuard no_grad;
    if (context_.own_gradients != nullptr) context_.own_gradients->leave();
    context_.reducer.take_back(!memory_stays);
    if (context_.weights && !memory_stays) context_.weights->leave();
  } catch (const std::exception& error) {
    log_warning("the weights stay in memory that the ranks share: {}", error.what());
  }
  context_.pass->leave();
  parts_.clear();
  context_.end();
}

void FusedUpdate::optimizer_destroyed() noexcept {
  context_.optimizer.set_step_delegate(nullptr);
  release();
}

void FusedUpdate::unfuse() {
  guarded([&] {
    FlatOptimizer& optimizer = context_.optimizer;
    const NamedParameters names = numbered_parameters(optimizer);
    const NamedState state = context_.pass->whole_state(names);
    const std::vector<at::Tensor> averages = context_.own_gradients->gather();
    context_.weights->give_back();
    release();
    show_averages(context_.gradients, averages);
    optimizer.unshard(names, state);
    context_.pass->let_go();
    // No rank may write its weights before all ranks have their own.
    if (context_.communicator->world_size() > 1) context_.communicator->barrier();
  });
}

void FusedUpdate::unfuse_weights() {
  guarded([&] {
    // Gradients first: what they take is free when whole weights need memory.
    context_.own_gradients->leave();
    context_.reducer.take_back();
    parts_.remove(*context_.own_gradients);
    context_.own_gradients = nullptr;
    context_.weights->give_back();
    release();
    if (context_.communicator->world_size() > 1) context_.communicator->barrier();  // as in unfuse
  });
}

}  // namespace lockstep
