#include "lockstep/train/survival/surviving_ranks.h"

#include <ATen/ops/zeros.h>
#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/comm/broadcast_text.h"
#include "lockstep/parallel/agreement/module_sync.h"
#include "lockstep/parallel/agreement/optimizer_sync.h"
#include "lockstep/parallel/fused/recovery/memory_hosts.h"
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
      memory_(core, rescue_, job_memory_),
      is_new_(elastic_.position() < 0) {}

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
  elastic_.begin_group();
  const Regrouped ranks = look_at_ranks();
  const bool stays = ranks.stays_in_memory();
  if (!stays) rescue_.take_whole();
  const Standing standing = elastic_.compare();
  if (!stays) rescue_.forget_memory();
  if (settle_late(standing)) return rescue_.take_whole();
  if (!standing.all_equal) receive_state(standing, ranks);
  state_.return_to_place();
  state_.restore_buffers();
  engine_.choose_again();
  rescue_.adopt(stays, /*may_be_unfinished=*/false, ranks.hosts_with_state);
  engine_.make(/*are_level=*/true, is_new_);
  elastic_.settled();
  core_.first.note_ranks();
  const bool is_new = std::exchange(is_new_, false);
  if (is_new) elastic_.announce();  // the others have let it in, and it continues what they do
  core_.first.begin_callbacks(is_new);
}

// Collective.
SurvivingRanks::Regrouped SurvivingRanks::look_at_ranks() const {
  Communicator& group = *elastic_.group();
  const MemoryHosts hosts = MemoryHosts::of(group, job_memory_.get());
  const bool can_fuse = rescue_.refusal(group, {}, parts_.plan.has_slices).empty() && context_.args().fuse;
  const bool knows = !is_new_ && rescue_.state() != nullptr && rescue_.has_memory();
  // Ranks that cannot take part, new ones, and for each host those that know what is there.
  const at::Tensor counts = at::zeros({2 + hosts.count()}, at::TensorOptions().dtype(at::kInt));
  int* const values = counts.data_ptr<int>();
  values[0] = can_fuse && (is_new_ || knows) ? 0 : 1;
  values[1] = is_new_ ? 1 : 0;
  values[2 + hosts.host()] = knows ? 1 : 0;
  if (group.world_size() > 1) group.all_reduce(counts);
  Regrouped result;
  result.has_new = values[1] > 0;
  std::vector<bool>& known = result.hosts_with_state;
  for (int host = 0; host < hosts.count(); ++host) known.push_back(values[2 + host] > 0);
  if (values[0] > 0 || std::find(known.begin(), known.end(), true) == known.end()) known.clear();
  return result;
}

// True if a rank has left the training: then all have its whole result, and no state is needed.
bool SurvivingRanks::settle_late(const Standing& standing) {
  if (!standing.is_late) return false;
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
  return true;
}

void SurvivingRanks::receive_state(const Standing& standing, const Regrouped& ranks) {
  Communicator& group = *context_.group;
  const bool is_behind = elastic_.position() < standing.newest;
  if (ranks.has_new) {
    const std::string data = broadcast_text(group, parts_.data.text(), standing.source);
    if (is_new_) parts_.data.require_as_ranks(data);
  }
  const std::string text = broadcast_text(
      group, context_.rank() == standing.source ? state_.passed_on(memory_.purpose()) : "", standing.source);
  // Half of a state is of no use, if the source is lost now. But weights and state that stay in memory are whole, and
  // only updates, which all ranks finish or none, change buffers. The rest is taken over at once, after the last
  // message.
  const bool stays_whole = ranks.stays_in_memory() && state_.stage() != Stage::Update;
  if (is_behind && !stays_whole) elastic_.set_position(-1);
  state_.restore_buffers();
  std::vector<at::Tensor> tensors;
  if (!ranks.stays_in_memory()) {
    tensors = tensors_of(context_.options.model->tensors().parameters);
  } else if (ranks.has_new) {
    tensors = state_.untrained();
  }
  for (const at::Tensor& buffer : state_.buffers()) tensors.push_back(buffer);
  {
    const at::NoGradGuard no_grad;
    broadcast_coalesced(group, tensors, standing.source);
  }
  if (ranks.stays_in_memory()) {
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
