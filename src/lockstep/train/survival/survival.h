#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "lockstep/elastic/elastic_group.h"
#include "lockstep/elastic/standing.h"
#include "lockstep/parallel/fused/recovery/update_meeting.h"
#include "lockstep/train/trainer_context.h"

namespace lockstep {

/// The part of a Trainer that lets it survive lost ranks. Each rank counts the steps of its work: stages of the
/// training and, after it, calls of the Trainer. All ranks do the same ones in the same order, so the counts show who
/// is behind.
class Survival {
 public:
  explicit Survival(std::unique_ptr<ElasticGroup> group) : group_(std::move(group)) {}

  /// Whether this process takes a lost rank's place and is not a member yet.
  bool is_joining() const { return !group_->group(); }
  /// From now on lost ranks are survived.
  void announce() const { group_->announce(); }
  /// Becomes a member. The training of the others gives it its state; then it announces itself.
  void join(TrainerContext& context);
  /// Forms the next group after a failure that is being handled: see ElasticGroup::recover.
  void recover(TrainerContext& context, const std::exception_ptr& failure);
  const std::shared_ptr<Communicator>& group() const { return group_->group(); }
  /// meet_after_loss in the present group, once, before anything else.
  bool meet(InterruptedUpdate* update = nullptr);
  /// For a rank that waits for something else than the others.
  /// @throws Error  with the cause of a lost rank, if a member of the group is gone or the others form another group
  void require_all();
  /// The ranks are level again, and continue.
  void settled(const TrainerContext& context);
  /// Lets new ranks in. Collective.
  void admit(TrainerContext& context);
  /// As ElasticGroup::someone_waits.
  bool someone_waits() { return group_->someone_waits(); }

  std::int64_t position() const { return position_; }
  void set_position(std::int64_t position) { position_ = position; }
  void advance() {
    ++position_;
    group_->has_advanced();
  }
  /// The training has ended on all ranks: no more ranks are let in.
  void end_training();
  bool is_late() const { return is_late_; }
  /// Compares the ranks' counts. Collective.
  Standing compare() const { return compare_positions(*group_->group(), position_, is_late_); }

  /// A call of the Trainer after the training. If a rank is lost in it, the others do it again; a rank that had not
  /// finished it when others had does `alone`.
  void section(TrainerContext& context, const std::function<void()>& body, const std::function<void()>& alone);
  /// This process needs the others no more. Does not throw.
  void leave() noexcept;

 private:
  void take_group(TrainerContext& context) const;

  std::unique_ptr<ElasticGroup> group_;
  std::int64_t position_ = 0;
  bool is_late_ = false;
  std::int64_t met_in_ = -1;                                         // number of the group
  std::optional<std::chrono::steady_clock::time_point> noticed_at_;  // a loss that is not survived yet
};

/// While it lives, the context is that of one process which is not the first of its job.
class HiddenGroup {
 public:
  explicit HiddenGroup(TrainerContext& context)
      : context_(context), rank_(context.rank()), group_(std::move(context.group)) {
    context_.group = nullptr;
    context_.rank_alone = rank_;
  }
  ~HiddenGroup() {
    context_.group = std::move(group_);
    context_.rank_alone = 0;
  }
  HiddenGroup(const HiddenGroup&) = delete;
  HiddenGroup& operator=(const HiddenGroup&) = delete;

 private:
  TrainerContext& context_;
  int rank_;
  std::shared_ptr<Communicator> group_;
};

}  // namespace lockstep
