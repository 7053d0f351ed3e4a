#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "lockstep/elastic/elastic_group.h"
#include "lockstep/elastic/kept_state.h"
#include "lockstep/elastic/standing.h"
#include "lockstep/parallel/fused/recovery/update_rescue.h"

namespace lockstep {

/// What the ranks of a loop bring each other level in.
class ElasticClient {
 public:
  virtual ~ElasticClient() = default;
  /// Whether this rank can fuse its update for this group. Collective; asked if weights and state may stay in memory.
  virtual bool can_fuse(Communicator& group) = 0;
  /// Updates that were interrupted are finished: whether this rank may continue. Collective.
  virtual void check(Communicator& /*group*/) {}
  /// Gives ranks that are behind the state of one that is not, and notes the position that this rank then has.
  /// Collective.
  virtual void receive(Communicator& group, const Standing& standing, const KeptState& kept) = 0;
};

/// The ranks of a job that survive others, whoever's loop it is: Trainer and ElasticProgress are its users. Each rank
/// counts the steps of its work. All ranks make the same ones in the same order, so the counts show which are behind.
class ElasticRanks {
 public:
  /// What a user does where the group changes. Either may be empty.
  struct Changes {
    std::function<void()> leave;  ///< gives the group up, so that others notice its end if they wait in it
    std::function<void()> enter;  ///< takes the next one
  };
  explicit ElasticRanks(std::unique_ptr<ElasticGroup> group, std::int64_t position = 0, Changes changes = {});

  /// Null before `join`, and after a failure that has left no group.
  const std::shared_ptr<Communicator>& group() const { return group_->group(); }
  /// Whether this process takes a lost rank's place and is not a member yet.
  bool is_joining() const { return !group(); }
  /// Becomes a member, without a state. It announces itself once it has one.
  void join();
  /// From now on lost ranks are survived.
  void announce();

  /// Steps that this rank has made; negative: it has no state.
  std::int64_t position() const { return position_; }
  void set_position(std::int64_t position) { position_ = position; }
  void advance();

  /// Forms the next group after a failure, unless a fused update has done so.
  /// @throws  the failure, if no rank is lost
  void recover(const std::exception_ptr& failure);
  /// Whether a fused update has formed the present group.
  bool has_regrouped() const { return has_regrouped_; }
  /// Whether that update is made, by all ranks.
  bool has_finished_update() const { return has_finished_update_; }
  /// The first thing in each group. Updates that were interrupted are finished, or taken back; ranks that are behind
  /// get the state of one that is not, unless that rank has finished: then all steps are made. Collective.
  /// @param rescue  of the client's optimizer; null: it has none
  Standing bring_level(ElasticClient& client, UpdateRescue* rescue);
  /// Whether the ranks have changed since they were level.
  bool must_settle() const { return must_settle_; }
  /// The ranks are level, and continue.
  void settled();
  /// Whether this process takes a lost rank's place, and has never been level.
  bool is_new() const { return is_new_; }

  /// As ElasticGroup::someone_waits.
  bool someone_waits() { return group_->someone_waits(); }
  /// Lets them in. Collective.
  void admit();
  /// For a rank that waits for something else than the others.
  /// @throws Error  with the cause of a lost rank, if a member of the group is gone or the others form another group
  void require_all();

  /// Lets fused updates of the optimizer survive lost ranks.
  /// @param regrouped  is called when such an update has formed the next group
  std::unique_ptr<UpdateRescue> make_rescue(FlatOptimizer& optimizer, RescueMemory memory,
                                            std::function<void()> regrouped = {});

  /// The steps are made on all ranks: no more ranks are let in.
  void close();
  bool has_finished() const { return has_finished_; }
  /// What ranks do together after `close`. If a rank is lost in it, the others do it again; a rank that had not
  /// finished it when others had does `alone`.
  void section(const std::function<void()>& body, const std::function<void()>& alone);
  /// This process needs the others no more.
  void leave() { group_->leave(); }

 private:
  Standing compare() const { return compare_positions(*group(), position_, has_finished_); }
  void regroup(const std::exception_ptr& failure);
  bool meet(InterruptedUpdate* update);
  void enter();

  std::unique_ptr<ElasticGroup> group_;
  std::int64_t position_;
  Changes changes_;
  bool is_new_;
  bool is_announced_ = false;
  bool has_finished_ = false;
  bool must_settle_ = false;
  std::int64_t met_in_ = -1;                                         // number of the group
  bool has_regrouped_ = false;                                       // in an optimizer's step
  bool has_finished_update_ = false;                                 // of that step
  std::optional<std::chrono::steady_clock::time_point> noticed_at_;  // a loss that is not survived yet
};

}  // namespace lockstep
