#include "lockstep/elastic/elastic_ranks.h"

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/failure_cause.h"
#include "lockstep/base/log.h"
#include "lockstep/base/seconds_since.h"
#include "lockstep/parallel/fused/recovery/update_meeting.h"

namespace lockstep {

ElasticRanks::ElasticRanks(std::unique_ptr<ElasticGroup> group, std::int64_t position, Changes changes)
    : group_(std::move(group)), position_(position), changes_(std::move(changes)), is_new_(position < 0) {}

void ElasticRanks::join() {
  position_ = -1;
  is_new_ = true;
  group_->join();
  enter();
}

void ElasticRanks::announce() {
  if (!std::exchange(is_announced_, true)) group_->announce();
}

void ElasticRanks::advance() {
  ++position_;
  group_->has_advanced();
}

void ElasticRanks::enter() {
  must_settle_ = true;
  if (changes_.enter) changes_.enter();
}

void ElasticRanks::recover(const std::exception_ptr& failure) {
  require_lost_rank(failure);
  must_settle_ = true;
  if (!has_regrouped_) regroup(failure);
}

void ElasticRanks::regroup(const std::exception_ptr& failure) {
  require_lost_rank(failure);
  if (!noticed_at_) noticed_at_ = std::chrono::steady_clock::now();
  if (changes_.leave) changes_.leave();
  group_->recover(failure);
  enter();
}

Standing ElasticRanks::bring_level(ElasticClient& client, UpdateRescue* rescue) {
  has_regrouped_ = has_finished_update_ = false;
  meet(nullptr);
  KeptState kept;
  const bool may_stay = rescue != nullptr && rescue->memory_stays();
  if (may_stay) kept = find_kept_state(*group(), *rescue, client.can_fuse(*group()), is_new_);
  if (rescue != nullptr && !kept.stays()) rescue->take_whole();
  client.check(*group());
  const Standing standing = compare();
  if (may_stay && !kept.stays()) rescue->forget_memory();
  if (standing.has_finished) return standing;
  if (!standing.all_equal) client.receive(*group(), standing, kept);
  if (rescue != nullptr) rescue->adopt(kept.stays(), /*may_be_unfinished=*/false, kept.hosts);
  return standing;
}

// Once in a group.
bool ElasticRanks::meet(InterruptedUpdate* update) {
  if (met_in_ == group_->number()) return false;
  const bool is_finished = meet_after_loss(*group(), update);
  met_in_ = group_->number();
  return is_finished;
}

void ElasticRanks::settled() {
  must_settle_ = is_new_ = false;
  const auto noticed_at = std::exchange(noticed_at_, std::nullopt);
  if (!noticed_at || group()->rank() != 0) return;
  log_info("{} rank(s) continue, {:.0f} ms after they noticed a loss", group()->world_size(),
           1e3 * seconds_since(*noticed_at));
}

void ElasticRanks::admit() {
  if (changes_.leave) changes_.leave();
  group_->admit();
  enter();
}

void ElasticRanks::require_all() {
  if (!group_->has_changed()) return;
  throw_caused(Error("a rank of the group is lost", group()->membership().where(),
                     "see its log, and its host's: another error there came first"),
               FailureCause{FailureCause::Kind::LostPeer, -1});
}

std::unique_ptr<UpdateRescue> ElasticRanks::make_rescue(FlatOptimizer& optimizer, RescueMemory memory,
                                                        std::function<void()> regrouped) {
  UpdateRescue::Ranks ranks;
  ranks.regroup = [this, regrouped = std::move(regrouped)](const std::exception_ptr& failure) {
    regroup(failure);
    has_regrouped_ = true;
    if (regrouped) regrouped();
    return group();
  };
  ranks.meet = [this](InterruptedUpdate* update) { return has_finished_update_ = meet(update); };
  return std::make_unique<UpdateRescue>(optimizer, std::move(ranks), std::move(memory));
}

void ElasticRanks::close() {
  has_finished_ = true;
  group_->close();
}

void ElasticRanks::section(const std::function<void()>& body, const std::function<void()>& alone) {
  if (!has_finished_) return body();
  for (bool has_changed = false;;) {
    try {
      if (has_changed) meet(nullptr);
      const bool others_are_done = has_changed && compare().newest > position_;
      has_changed = false;
      others_are_done ? alone() : body();
      return advance();
    } catch (...) {
      regroup(std::current_exception());
      has_changed = true;
    }
  }
}

}  // namespace lockstep
