#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "lockstep/comm/process_group.h"
#include "lockstep/elastic/elastic_state.h"

namespace lockstep {

class ElasticProgress;

/// The steps of an `elastic_loop`, for its body.
class ElasticSteps {
 public:
  /// The ranks that there are now.
  const std::shared_ptr<Communicator>& group() const;
  /// The step to be made, from ElasticState::first_step.
  std::int64_t step() const;
  /// Call it before each step: the step before it is done then. Collective.
  /// @return  false if the body must return: all steps are done, or new ranks are let in
  bool next();

  /// For elastic_loop itself.
  ElasticSteps(ElasticProgress& progress, std::int64_t steps) : progress_(progress), steps_(steps) {}

 private:
  ElasticProgress& progress_;
  const std::int64_t steps_;
  bool has_begun_ = false;
};

/// Deprecated: `on_rank_change` does the same for a loop that stays the program's own, and docs/reference/survival.md
/// has what to write. Goes after the next release.
///
/// Makes the steps from `state.first_step` to `steps` on ranks that may be lost, and replaced, while the process lives.
///
///     lockstep::elastic_loop(1000, {tensors, {&optimizer}}, [&](lockstep::ElasticSteps& steps) {
///       lockstep::DistributedDataParallelOptions options;
///       options.process_group = steps.group();
///       options.virtual_shards = 8;
///       lockstep::DistributedDataParallel ddp(model, options);
///       while (steps.next()) {
///         ddp.run_shards(steps.step(), [&](std::int64_t shard) { ... });
///         optimizer.step();
///       }
///     });
///
/// If a rank is lost, what the body waits for throws. The other ranks then form a group; those that have done fewer
/// steps get the state of one that has done the most; and the body is called again. So it builds on the group all that
/// belongs to a group, changes the state only after the last exchange of a step, and does not catch errors of
/// exchanges. The body may fuse the only optimizer, over virtual shards; then nothing is exchanged between its step and
/// `next`. An Accelerator made in the body for its group serves as well as the wrapper. With virtual shards no sample
/// is lost, and the bits are those of the undisturbed loop. See docs/reference/survival.md.
///
/// Joins the job, in place of init_process_group, or takes a lost rank's place if `lockstep run` started the process
/// for that. A process that has called init_process_group before keeps its group, but one that takes a lost rank's
/// place cannot call it.
/// @throws UsageError  without `lockstep run`
/// @throws Error  what the body throws, if no rank is lost
[[deprecated("use on_rank_change: docs/reference/survival.md")]] void elastic_loop(
    std::int64_t steps, const ElasticState& state, const std::function<void(ElasticSteps&)>& body,
    const ProcessGroupOptions& options = {});

}  // namespace lockstep
