#include "lockstep/train/survival/surviving_ranks.h"

#include <torch/types.h>

#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/broadcast_text.h"
#include "lockstep/parallel/agreement/module_sync.h"
#include "lockstep/parallel/agreement/optimizer_sync.h"
#include "lockstep/tensor/tensors_of.h"

namespace lockstep {

SurvivingRanks::SurvivingRanks(SessionCore& core)
    : core_(core),
      context_(core.context),
      parts_(core.parts),
      checkpoints_(core.checkpoints),
      state_(core.state),
      engine_(core.engine),
      elastic_(*context_.elastic),
      job_memory_(JobMemoryMap::of_rank()),
      rescue_(engine_.survive(
          elastic_.make_rescue(parts_.updater.optimizer(), RescueMemory{job_memory_, true}, [this] { note_group(); }))),
      memory_(core, rescue_, job_memory_) {}

void SurvivingRanks::recover(const std::exception_ptr& failure) {
  require_lost_rank(failure);
  engine_.reset();  // both hold the group, whose end the others may have to notice
  checkpoints_.forget_ranks();
  state_.restore_control();
  elastic_.recover(failure);
  note_group();
}

// Callbacks see themselves on the first rank once the output folder is its own.
void SurvivingRanks::note_group() {
  checkpoints_.forget_ranks();
  context_.state.is_world_process_zero = core_.first.has_begun();
}

void SurvivingRanks::settle_if_changed() {
  if (elastic_.must_settle()) settle();
}

void SurvivingRanks::admit() {
  engine_.reset();
  checkpoints_.forget_ranks();
  elastic_.admit();
  settle();
}

void SurvivingRanks::settle() {
  engine_.reset();
  const Standing standing = elastic_.bring_level(*this, &rescue_);
  if (standing.has_finished) return settle_finished(standing);
  state_.return_to_place();
  state_.restore_buffers();
  engine_.choose_again();
  const bool is_new = elastic_.is_new();
  engine_.make(/*are_level=*/true, is_new);
  elastic_.settled();
  core_.first.note_ranks();
  if (is_new) elastic_.announce();  // the others have let it in, and it continues what they do
  core_.first.begin_callbacks(is_new);
}

bool SurvivingRanks::can_fuse(Communicator& group) {
  return rescue_.refusal(group, {}, parts_.plan.has_slices).empty() && context_.args().fuse;
}

// A rank has left the training, so all have its whole result, and no state is needed.
void SurvivingRanks::settle_finished(const Standing& standing) {
  elastic_.settled();
  if (state_.stage() == Stage::Finish) {
    elastic_.close();
    elastic_.advance();
    state_.end_stage();
  }
  if (state_.stage() != Stage::LoadBest) {
    throw Error("another rank has ended the training, and this one has not", context_.where(),
                "this is a fault of the library; resume from the last checkpoint");
  }
  others_are_done_ = standing.newest > elastic_.position();
  rescue_.take_whole();
}

void SurvivingRanks::receive(Communicator& group, const Standing& standing, const KeptState& kept) {
  const bool is_behind = elastic_.position() < standing.newest;
  if (kept.has_new) {
    const std::string data = broadcast_text(group, parts_.data.text(), standing.source);
    if (elastic_.is_new()) parts_.data.require_as_ranks(data);
  }
  const std::string text = broadcast_text(
      group, context_.rank() == standing.source ? state_.passed_on(memory_.purpose()) : "", standing.source);
  // Half of a state is of no use, if the source is lost now. But weights and state that stay in memory are whole, and
  // only updates, which all ranks finish or none, change buffers. The rest is taken over at once, after the last
  // message.
  const bool stays_whole = kept.stays() && state_.stage() != Stage::Update;
  if (is_behind && !stays_whole) elastic_.set_position(-1);
  state_.restore_buffers();
  std::vector<at::Tensor> tensors;
  if (!kept.stays()) {
    tensors = tensors_of(context_.options.model->tensors().parameters);
  } else if (kept.has_new) {
    tensors = state_.untrained();
  }
  for (const at::Tensor& buffer : state_.buffers()) tensors.push_back(buffer);
  {
    const at::NoGradGuard no_grad;
    broadcast_coalesced(group, tensors, standing.source);
  }
  if (kept.stays()) {
    broadcast_group_options(group, parts_.updater.optimizer(), standing.source);
  } else {
    broadcast_optimizer(group, parts_.updater.optimizer(), standing.source);
  }
  if (!is_behind) return;
  memory_.set_purpose(state_.take_over(text));
  state_.note_buffers();
  elastic_.set_position(standing.newest);
}

}  // namespace lockstep
