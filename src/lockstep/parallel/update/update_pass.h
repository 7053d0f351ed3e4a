#pragma once

#include <cstddef>
#include <exception>

#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/optim/update/fused_segment.h"
#include "lockstep/parallel/fused/recovery/update_journal.h"

namespace lockstep {

/// Who runs the kernel over the buckets in a step:
///
///   prepare ─▶ (norm) ─▶ decide ─▶ for each bucket: run ─▶ (weights are sent and received) ─▶ end
class UpdatePass {
 public:
  virtual ~UpdatePass() = default;
  /// Each rank has the sums that it reads. Collective.
  virtual void prepare() {}
  /// From here on the update is made, whatever becomes of ranks. @param has_met  all ranks have met since `prepare`
  virtual void decide(const UpdateNote&, bool /*has_met*/) {}
  /// Whether `run` is called for buckets for which no rank has a gradient, too.
  virtual bool runs_without_gradients() const { return false; }
  /// Whether clipping may write to this rank's gradients. Sums are scaled anyway.
  virtual bool scales_gradients() const { return true; }
  virtual void run(std::size_t bucket, const SegmentUpdate& update) = 0;
  /// All weights are up to date on this rank.
  virtual void end(const UpdateNote&) {}
  /// A call of the step has thrown. @return  the result if the update was finished nevertheless: it is in force no
  /// longer then. @throws  the failure, if it was not
  virtual StepResult after(const std::exception_ptr& failure) { std::rethrow_exception(failure); }

  /// Whether weights and state stay where they are when the update is in force no longer.
  virtual bool memory_stays() const { return false; }
  /// The optimizer's whole state. Collective.
  virtual NamedState whole_state(const NamedParameters& names) const = 0;
  /// The optimizer has it again.
  virtual void let_go() {}
  /// The update is in force no longer. Not collective.
  virtual void leave() {}
  /// The update could not be made: whether weights and state stay where they are. @param group_has_ended  with it
  virtual bool stays_unmade(bool /*group_has_ended*/) const { return false; }
  /// After `leave` in that case. @throws  the failure, if the optimizer cannot continue without the update
  virtual void abandon(const std::exception_ptr&, bool /*group_has_ended*/) {}
};

}  // namespace lockstep
