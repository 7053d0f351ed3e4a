#include "lockstep/train/survival/survival.h"

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/failure_cause.h"
#include "lockstep/base/log.h"
#include "lockstep/base/seconds_since.h"

namespace lockstep {

void Survival::take_group(TrainerContext& context) const {
  context.group = group_->group()->world_size() > 1 ? group_->group() : nullptr;
  context.rank_alone = 0;
  context.state.is_world_process_zero = context.rank() == 0;
  context.state.is_local_process_zero = context.is_first_of_host();
}

void Survival::join(TrainerContext& context) {
  position_ = -1;
  group_->join();
  take_group(context);
}

void Survival::recover(TrainerContext& context, const std::exception_ptr& failure) {
  require_lost_rank(failure);
  if (!noticed_at_) noticed_at_ = std::chrono::steady_clock::now();
  context.group = nullptr;  // others may still wait in it: they notice that it ends
  group_->recover(failure);
  take_group(context);
}

bool Survival::meet(InterruptedUpdate* update) {
  if (met_in_ == group_->number()) return false;
  const bool is_finished = meet_after_loss(*group_->group(), update);
  met_in_ = group_->number();
  return is_finished;
}

void Survival::require_all() {
  if (!group_->has_changed()) return;
  throw_caused(Error("a rank of the group is lost", group_->group()->membership().where(),
                     "see its log, and its host's: another error there came first"),
               FailureCause{FailureCause::Kind::LostPeer, -1});
}

void Survival::settled(const TrainerContext& context) {
  const auto noticed_at = std::exchange(noticed_at_, std::nullopt);
  if (!noticed_at || context.rank() != 0) return;
  log_info("{} rank(s) continue, {:.0f} ms after they noticed a loss", context.world_size(),
           1e3 * seconds_since(*noticed_at));
}

void Survival::admit(TrainerContext& context) {
  context.group = nullptr;
  group_->admit();
  take_group(context);
}

void Survival::end_training() {
  is_late_ = true;
  group_->close();
}

void Survival::section(TrainerContext& context, const std::function<void()>& body, const std::function<void()>& alone) {
  if (!is_late_) return body();
  for (bool has_changed = false;;) {
    try {
      if (has_changed) meet();
      const bool others_are_done = has_changed && compare().newest > position_;
      has_changed = false;
      others_are_done ? alone() : body();
      return advance();
    } catch (...) {
      recover(context, std::current_exception());
      has_changed = true;
    }
  }
}

void Survival::leave() noexcept {
  try {
    if (is_late_) group_->leave();
  } catch (const std::exception& error) {
    log_info("the other ranks are not told that this one has finished: {}", error.what());
  }
}

}  // namespace lockstep
