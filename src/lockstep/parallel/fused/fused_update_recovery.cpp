// FusedUpdate: how it survives lost ranks.
#include "lockstep/parallel/fused/fused_update.h"

namespace lockstep {

void FusedUpdate::make_recoverable(std::vector<FusedSegment>& segments) {
  recovery_ = std::make_unique<RecoverableUpdate>(
      RecoverableUpdate::Parts{*optimizer_, plan_, buckets_, gradients_, *shards_}, *communicator_);
  for (std::size_t b = 0; b < segments.size(); ++b) recovery_->state()->take(segments[b], b, *communicator_);
  rescue_->hold(recovery_->state());
}

// If a rank is lost, this rank leaves the group and what is fused, with the weights that all survivors have.
StepResult FusedUpdate::finish_without_lost(std::exception_ptr failure) {
  StepResult result;
  for (;;) {
    const std::shared_ptr<Communicator> survivors = rescue_->ranks().regroup(failure);
    if (!recovery_->is_decided()) std::rethrow_exception(failure);
    try {
      const UpdateNote note = recovery_->finish(*survivors);
      rescue_->ranks().meet();
      recovery_->end(note.contributed);
      result.norm = note.norm;
      break;
    } catch (...) {
      failure = std::current_exception();
    }
  }
  release();
  return result;
}

}  // namespace lockstep
