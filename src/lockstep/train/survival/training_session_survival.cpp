// How a training continues after its ranks have changed.
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
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
#include "lockstep/train/loop/training_session.h"
#include "lockstep/train/survival/survival.h"

namespace lockstep {

void TrainingSession::recover(const std::exception_ptr& failure) {
  require_lost_rank(failure);
  engine_.reset();  // both hold the group, whose end the others may have to notice
  checkpoints_.forget_ranks();
  must_settle_ = true;
  state_.restore_control();
  if (!std::exchange(has_regrouped_, false)) regroup(failure);
}

// Callbacks see themselves on the first rank once the output folder is its own.
void TrainingSession::regroup(const std::exception_ptr& failure) {
  context_.survival->recover(context_, failure);
  context_.state.is_world_process_zero = first_.has_begun();
}

std::unique_ptr<UpdateRescue> TrainingSession::make_rescue() {
  UpdateRescue::Ranks ranks;
  ranks.regroup = [this](const std::exception_ptr& failure) {
    regroup(failure);
    checkpoints_.forget_ranks();
    must_settle_ = has_regrouped_ = true;
    return context_.survival->group();
  };
  ranks.meet = [this](InterruptedUpdate* update) { return context_.survival->meet(update); };
  return std::make_unique<UpdateRescue>(parts_.updater.optimizer(), std::move(ranks), RescueMemory{job_memory_, true});
}

std::string TrainingSession::make_engine(bool are_level) {
  engine_ = make_gradient_engine(choice_, args_, model_, context_.group, are_level);
  if (rescue_) {
    const std::string refusal = rescue_->refusal(*context_.survival->group(), {}, parts_.plan.has_slices);
    tell_refused_fuse(refusal);
    if (!refusal.empty()) return "";
  }
  std::string fused = engine_->fuse(parts_.updater.optimizer());
  // Unless memory was short, and this rank has taken copies.
  if (rescue_ && rescue_->adopts() && fused.empty() && (is_new_ || rescue_->state() != nullptr)) {
    throw Error("the training's state is in memory that ranks share, and this rank cannot fuse the update with it",
                context_.where(), "resume from the last checkpoint; if this recurs, it is a fault of the library");
  }
  WeightShards* const shards = engine_->weight_shards();
  context_.shards = shards == nullptr ? nullptr : std::shared_ptr<WeightShards>(engine_, shards);
  return fused;
}

// Ranks that come, or go, may change whether the others can fuse. All have the same refusal.
void TrainingSession::tell_refused_fuse(const std::string& refusal) {
  const std::string before = std::exchange(fuse_refusal_, args_.fuse ? refusal : "");
  if (fuse_refusal_ == before || context_.rank() != 0) return;
  if (fuse_refusal_.empty()) return log_info("fuse: the update is fused from now on");
  log_warning("fuse: {}; the update is not fused", fuse_refusal_);
}

// The ranks have changed. Those that are behind get the state of one that is not. Then all of them begin the present
// stage again.
void TrainingSession::settle() {
  engine_.reset();
  has_regrouped_ = false;
  context_.survival->meet();
  const Regrouped ranks = look_at_ranks();
  const bool stays = ranks.stays_in_memory();
  if (!stays) rescue_->take_whole();
  const Standing standing = context_.survival->compare();
  if (!stays) rescue_->forget_memory();
  if (settle_late(standing)) return rescue_->take_whole();
  if (!standing.all_equal) receive_state(standing, ranks);
  state_.return_to_place();
  state_.restore_buffers();
  choice_ = choose_engine(args_, *model_, context_.group.get(), context_.is_rank);
  rescue_->adopt(stays, /*may_be_unfinished=*/false, ranks.hosts_with_state);
  make_engine(/*are_level=*/true);
  must_settle_ = false;
  context_.survival->settled(context_);
  first_.note_ranks();
  const bool is_new = std::exchange(is_new_, false);
  if (is_new) context_.survival->announce();  // the others have let it in, and it continues what they do
  first_.begin_callbacks(is_new);
}

// Collective.
TrainingSession::Regrouped TrainingSession::look_at_ranks() const {
  Communicator& group = *context_.survival->group();
  const MemoryHosts hosts = MemoryHosts::of(group, job_memory_.get());
  const bool can_fuse = rescue_->refusal(group, {}, parts_.plan.has_slices).empty() && args_.fuse;
  const bool knows = !is_new_ && rescue_->state() != nullptr && rescue_->has_memory();
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
bool TrainingSession::settle_late(const Standing& standing) {
  if (!standing.is_late) return false;
  Survival& survival = *context_.survival;
  must_settle_ = false;
  if (state_.stage() == Stage::Finish) {
    survival.end_training();
    survival.advance();
    state_.end_stage();
  }
  if (state_.stage() != Stage::LoadBest) {
    throw Error("another rank has ended the training, and this one has not", context_.where(),
                "this is a fault of the library; resume from the last checkpoint");
  }
  others_are_done_ = standing.newest > survival.position();
  return true;
}

void TrainingSession::receive_state(const Standing& standing, const Regrouped& ranks) {
  Communicator& group = *context_.group;
  const bool is_behind = context_.survival->position() < standing.newest;
  if (ranks.has_new) {
    const std::string data = broadcast_text(group, parts_.data.text(), standing.source);
    if (is_new_) parts_.data.require_as_ranks(data);
  }
  const std::string text = broadcast_text(
      group, context_.rank() == standing.source ? state_.passed_on(memory_->purpose()) : "", standing.source);
  // Half of a state is of no use, if the source is lost now. But weights and state that stay in memory are whole, and
  // only updates, which all ranks finish or none, change buffers. The rest is taken over at once, after the last
  // message.
  const bool stays_whole = ranks.stays_in_memory() && state_.stage() != Stage::Update;
  if (is_behind && !stays_whole) context_.survival->set_position(-1);
  state_.restore_buffers();
  std::vector<at::Tensor> tensors;
  if (!ranks.stays_in_memory()) {
    tensors = tensors_of(model_->tensors().parameters);
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
  memory_->set_purpose(state_.take_over(text));
  state_.note_buffers();
  context_.survival->set_position(standing.newest);
}

}  // namespace lockstep
