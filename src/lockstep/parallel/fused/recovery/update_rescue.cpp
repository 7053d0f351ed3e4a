#include "lockstep/parallel/fused/recovery/update_rescue.h"

#include <mutex>
#include <unordered_map>
#include <utility>

#include "lockstep/parallel/agreement/optimizer_state.h"
#include "lockstep/parallel/features/features.h"
#include "lockstep/parallel/fused/recovery/memory_hosts.h"

namespace lockstep {
namespace {

struct Rescues {
  std::mutex mutex;
  std::unordered_map<const FlatOptimizer*, UpdateRescue*> by_optimizer;
};

// Never destroyed: a static object may end after everything else.
Rescues& rescues() {
  static auto& all = *new Rescues;
  return all;
}

}  // namespace

UpdateRescue::UpdateRescue(FlatOptimizer& optimizer, Ranks ranks, RescueMemory memory)
    : optimizer_(optimizer), ranks_(std::move(ranks)), memory_(std::move(memory)) {
  const std::lock_guard<std::mutex> lock(rescues().mutex);
  rescues().by_optimizer[&optimizer] = this;
}

UpdateRescue::~UpdateRescue() {
  const std::lock_guard<std::mutex> lock(rescues().mutex);
  rescues().by_optimizer.erase(&optimizer_);
}

UpdateRescue* UpdateRescue::of(const FlatOptimizer& optimizer) {
  const std::lock_guard<std::mutex> lock(rescues().mutex);
  const auto found = rescues().by_optimizer.find(&optimizer);
  return found == rescues().by_optimizer.end() ? nullptr : found->second;
}

std::string UpdateRescue::refusal(Communicator& communicator, const FuseOptions& options, bool has_slices) const {
  const MemoryHosts hosts = MemoryHosts::of(communicator, memory_.job.get());
  Features features;
  features.add(Feature::Survival);
  if (options.stage != 1) features.add(options.stage == 2 ? Feature::Stage2 : Feature::Stage3);
  if (!options.share_weights) features.add(Feature::OwnWeights);
  if (const auto refused = features.reason_not_to_fuse()) return refused->what;
  if (!hosts.all_have) {
    return communicator.membership().on_one_host()
               ? "the launcher holds no memory that outlives the ranks (LOCKSTEP_MEMORY_FD)"
               : "the launcher of some host holds no memory that outlives the ranks (LOCKSTEP_MEMORY_FD)";
  }
  if (hosts.count() > 1 && !hosts.all_round_alike) {
    return "the hosts would round the update differently: some ranks have no fused multiply-add (LOCKSTEP_ISA "
           "baseline)";
  }
  if (!has_slices) return "without virtual shards the others cannot finish a lost rank's half-done update";
  return "";
}

void UpdateRescue::forget_memory() {
  if (!memory_.job) return;
  memory_.job->header().can_begin.store(0);
  memory_.job->header().is_whole.store(0);
}

void UpdateRescue::take_whole() {
  const std::shared_ptr<SharedState> state = std::exchange(state_, nullptr);
  if (!state) return;
  state->leave_weights();
  if (!optimizer_.is_sharded()) return;
  const NamedParameters names = numbered_parameters(optimizer_);
  optimizer_.unshard(names, state->whole(names));
}

}  // namespace lockstep
