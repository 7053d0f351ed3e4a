#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "lockstep/comm/communicator.h"
#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/parallel/fuse_options.h"
#include "lockstep/parallel/fused/recovery/shared_state.h"

namespace lockstep {

/// As long as it lives, fused updates of an optimizer survive lost ranks: a step that fails because of one forms the
/// next group, and returns as if nothing had happened if the update was decided. The DistributedDataParallel is then of
/// no more use: `take_whole`, and wrap the module again.
class UpdateRescue {
 public:
  struct Ranks {
    /// Forms the group of those that are left after a failure. @throws  the failure, if no rank is lost
    std::function<std::shared_ptr<Communicator>(const std::exception_ptr& failure)> regroup;
    /// A barrier of that group, which all its ranks pass once, before anything else: those whose updates were
    /// interrupted in the step, others before `take_whole`.
    std::function<void()> meet;
  };
  /// @param optimizer  must outlive this object
  UpdateRescue(FlatOptimizer& optimizer, Ranks ranks);
  ~UpdateRescue();
  UpdateRescue(const UpdateRescue&) = delete;
  UpdateRescue& operator=(const UpdateRescue&) = delete;

  /// The optimizer's; null if it has none.
  static UpdateRescue* of(const FlatOptimizer& optimizer);
  /// Why fused updates of this group could not survive lost ranks; empty if they can.
  static std::string refusal(const Communicator& communicator, const FuseOptions& options, bool has_shards);

  const Ranks& ranks() const { return ranks_; }
  /// The optimizer's state is there from now on.
  void hold(std::shared_ptr<SharedState> state) { state_ = std::move(state); }
  /// The optimizer has its whole state again.
  void let_go() { state_.reset(); }
  /// The whole state of an optimizer that is fused, as views of memory that the next update changes; null if it is not.
  const SharedState* state() const { return state_.get(); }
  /// Gives the optimizer its whole state again, if a fused update had it, after that is gone. All ranks have passed
  /// `meet` since the group has changed. Not collective.
  void take_whole();

 private:
  FlatOptimizer& optimizer_;
  Ranks ranks_;
  std::shared_ptr<SharedState> state_;
};

}  // namespace lockstep
