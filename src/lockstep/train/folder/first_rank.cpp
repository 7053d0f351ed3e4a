#include "lockstep/train/folder/first_rank.h"

namespace lockstep {

void FirstRank::note_ranks() {
  if (becomes_first()) succession_.begin();
}

void FirstRank::begin_callbacks(bool is_new) {
  if (becomes_first() && !succession_.is_awaited()) return begin_as_first();
  if (is_new) begin_as_after_checkpoint();
}

void FirstRank::await_folder(const std::string& use) {
  if (!succession_.is_awaited()) return;
  use.empty() ? succession_.try_again() : succession_.wait(use);
  if (!succession_.is_awaited()) begin_as_first();
}

void FirstRank::take_folder_at_the_end() {
  if (!becomes_first()) return;
  succession_.take_at_the_end();
  begin_as_first();
}

// What callbacks ask for on this rank alone cannot be done: the others may be in another stage by now.
void FirstRank::begin_as_first() {
  const TrainerControl control = context_.control;
  succession_.find_lost_logs();
  begin_as_after_checkpoint();
  succession_.hand_out_logs();
  context_.control = control;
}

// Callbacks of the first rank write files.
void FirstRank::begin_as_after_checkpoint() {
  has_begun_ = context_.state.is_world_process_zero;
  context_.keep_callback_states(context_.control);
  context_.notify_begin();
  context_.load_callback_states();
}

}  // namespace lockstep
