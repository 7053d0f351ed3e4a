#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/parallel/fuse_options.h"
#include "lockstep/parallel/fused/recovery/job_memory_map.h"
#include "lockstep/parallel/fused/recovery/shared_state.h"
#include "lockstep/parallel/fused/recovery/update_meeting.h"

namespace lockstep {

/// The memory that survives lost ranks.
struct RescueMemory {
  std::shared_ptr<JobMemoryMap> job;  ///< null: nothing is fused
  /// Weights and state stay there while the ranks change: the next `fuse` finds them. False: each rank then takes a
  /// copy of all of it.
  bool stays = false;
};

/// As long as it lives, fused updates of an optimizer survive lost ranks: a step that fails because of one forms the
/// next group, and returns as if nothing had happened if the update was decided. The DistributedDataParallel is then of
/// no more use: `take_whole`, and wrap the module again.
class UpdateRescue {
 public:
  struct Ranks {
    /// Forms the group of those that are left after a failure. @throws  the failure, if no rank is lost
    std::function<std::shared_ptr<Communicator>(const std::exception_ptr& failure)> regroup;
    /// meet_after_loss in that group, once, before anything else: of those whose updates were interrupted in the step,
    /// others call it before `take_whole`.
    std::function<bool(InterruptedUpdate* update)> meet;
  };
  /// @param optimizer  must outlive this object
  UpdateRescue(FlatOptimizer& optimizer, Ranks ranks, RescueMemory memory);
  ~UpdateRescue();
  UpdateRescue(const UpdateRescue&) = delete;
  UpdateRescue& operator=(const UpdateRescue&) = delete;

  /// The optimizer's; null if it has none.
  static UpdateRescue* of(const FlatOptimizer& optimizer);
  /// Why fused updates of this group could not survive lost ranks; empty if they can. Equal on all ranks. Collective.
  std::string refusal(Communicator& communicator, const FuseOptions& options, bool has_slices) const;

  const Ranks& ranks() const { return ranks_; }
  const std::shared_ptr<JobMemoryMap>& memory() const { return memory_.job; }
  bool memory_stays() const { return memory_.stays; }
  /// Whether weights and state of some training are in the memory. Equal on all ranks that have met.
  bool has_memory() const { return memory_.job && memory_.job->header().is_whole.load() != 0; }
  /// Whether the next `fuse` takes weights and state that are in the memory of hosts, and not this rank's. Equal on all
  /// ranks.
  /// @param may_be_unfinished  the last update, by ranks that are gone: then nothing else than `fuse` can use it
  /// @param hosts  which have them, as MemoryHosts counts them; the others get them from these. Empty: all
  void adopt(bool adopts, bool may_be_unfinished = false, std::vector<bool> hosts = {}) {
    adopts_ = adopts;
    may_be_unfinished_ = may_be_unfinished;
    adopted_hosts_ = std::move(hosts);
  }
  const std::vector<bool>& adopted_hosts() const { return adopted_hosts_; }
  bool may_be_unfinished() const { return may_be_unfinished_; }
  bool adopts() const { return adopts_; }
  /// The memory is of no more use. After all ranks have copied what they need.
  void forget_memory();

  /// The optimizer's state is there from now on.
  void hold(std::shared_ptr<SharedState> state) { state_ = std::move(state); }
  /// The optimizer has its whole state again.
  void let_go() { state_.reset(); }
  /// The whole state of an optimizer that is fused, as views of memory that the next update changes; null if it is not.
  const SharedState* state() const { return state_.get(); }
  /// Gives the optimizer its whole state again, and the parameters memory of this rank, if a fused update had them,
  /// after that is gone. All ranks have passed `meet` since the group has changed. Not collective.
  void take_whole();

 private:
  FlatOptimizer& optimizer_;
  Ranks ranks_;
  RescueMemory memory_;
  bool adopts_ = false;
  bool may_be_unfinished_ = false;
  std::vector<bool> adopted_hosts_;
  std::shared_ptr<SharedState> state_;
};

}  // namespace lockstep
