// FusedUpdate: how it survives lost ranks.
#include "lockstep/parallel/fused/fused_update.h"
#include "lockstep/parallel/shards/virtual_shards.h"

namespace lockstep {

// Gradients, their sums and weights lie in memory that outlives the ranks.
void FusedUpdate::open_memory() {
  Communicator& ranks = *communicator_;
  const bool is_there = rescue_->adopts();
  const auto shape = LastingMemory::shape_of(buckets_, gradients_, shards_->plan().tree().shards(), ranks.world_size());
  const auto lanes = RecoverableUpdate::lanes_for(buckets_, shape.parameters, ranks);
  const auto earlier = rescue_->state() != nullptr ? rescue_->state()->memory() : nullptr;
  lasting_ = LastingMemory::open(rescue_->memory(), shape, lanes, is_there, earlier, ranks);
  state_ = std::make_shared<SharedState>(*optimizer_, buckets_, gradients_, lasting_, is_there);
  rescue_->hold(state_);
  lasting_->reserve_gradients(ranks);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    FusedBucket& bucket = buckets_[b];
    gradients_.lend(bucket.index, lasting_->gradients(ranks.rank(), b), /*is_cleared=*/false);
    bucket.gradients = gradients_[bucket.index].memory;
    for (int rank = 0; rank < ranks.world_size(); ++rank) {
      bucket.gradients_of.push_back(lasting_->gradients(rank, b).data_ptr());
    }
    const std::int64_t numel = lasting_->numel(b, ranks.world_size());
    bucket.weights = lasting_->weights(b).narrow(0, 0, numel);
    bucket.sums = lasting_->sums(b).narrow(0, 0, numel);
    if (is_there) continue;
    lasting_->reserve_part(bucket.weights, ranks);
    lasting_->reserve_part(bucket.sums, ranks);
  }
}

void FusedUpdate::make_recoverable(std::vector<FusedSegment>& segments) {
  for (std::size_t b = 0; b < segments.size(); ++b) state_->take(segments[b], b, *communicator_);
}

void FusedUpdate::begin_recoverable() {
  MemoryHeader& header = lasting_->header();
  if (!rescue_->adopts()) state_->write_steps(lasting_->steps(0));
  recovery_ = std::make_unique<RecoverableUpdate>(RecoverableUpdate::Parts{*optimizer_, buckets_, *state_}, lasting_,
                                                  *communicator_);
  recovery_->begin(*communicator_);
  state_->is_complete();
  parts_->watch.start_over();  // it may have finished an update
  // The journal has begun on all ranks, so all have written their part. Rank 0 takes part in each update.
  if (communicator_->rank() == 0) header.is_whole.store(1);
}

// In a handler of what went wrong in `take_over`. If the group has ended, the next one continues from what is there.
void FusedUpdate::leave_memory(bool group_has_ended) {
  UpdateRescue& rescue = *rescue_;
  const bool stays = rescue.adopts() && group_has_ended;
  release(stays);
  if (stays) throw;
  if (rescue.adopts() && (rescue.state() == nullptr || rescue.may_be_unfinished())) throw;  // no state to leave with
  rescue.take_whole();
  if (group_has_ended) throw;
  rescue.forget_memory();
}

// Ranks that finish the update for a lost one need its sums.
void FusedUpdate::complete_sums() {
  for (std::size_t b = 0; b < buckets_.size(); ++b) parts_->memory->gradients(b);
  if (communicator_->world_size() > 1) communicator_->barrier();
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
      recovery_->end(note);
      result.norm = note.norm;
      break;
    } catch (...) {
      failure = std::current_exception();
    }
  }
  release(memory_stays());
  return result;
}

}  // namespace lockstep
