#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/comm/process_group.h"
#include "lockstep/elastic/elastic_ranks.h"
#include "lockstep/elastic/elastic_state.h"
#include "lockstep/elastic/loop_data.h"
#include "lockstep/elastic/step_backup.h"
#include "lockstep/net/worlds/member_standing.h"
#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/parallel/agreement/state_watch.h"
#include "lockstep/parallel/fused/recovery/update_rescue.h"

namespace lockstep {

/// How far this rank is in a loop whose ranks may be lost and replaced, and what it does when they are: under
/// `elastic_loop` and `on_rank_change`. All ranks call the same functions in the same order; where one fails because of
/// a lost rank, `attempt` forms the next group, and all continue with `begin`.
class ElasticProgress : private ElasticClient {
 public:
  /// Joins the job, or takes a lost rank's place.
  /// @param state  outlives this object
  ElasticProgress(const ElasticState& state, const ProcessGroupOptions& options);

  const std::shared_ptr<Communicator>& group() const { return ranks_->group(); }
  /// Steps that are made; negative while this rank has no state.
  std::int64_t step() const { return ranks_->position(); }

  /// Runs `work`. If a rank is lost in it, forms the next group: `begin` comes next. What belongs to a group must be
  /// gone when `work` ends or throws.
  /// @throws Error  what `work` throws, if no rank is lost
  void attempt(const std::function<void()>& work);

  /// The first thing in each group: ranks that are behind get the state of one that is not. Collective.
  void begin();
  /// For loops whose ends are not the same number on all ranks by themselves: `ends` if this rank makes no more steps.
  /// Compares it where processes have joined or are about to; elsewhere the exchanges differ, which fails. Collective.
  /// @throws Error  if some ranks end and others do not
  void compare_ends(bool ends);
  void start_step();
  /// The step is made on this rank. Collective.
  void finish_step();
  /// Whether processes wait to join, as the last step's end has shown. Equal on all ranks.
  bool lets_in() const { return lets_in_; }
  /// Lets them in; `begin` comes next. Collective.
  void admit();
  /// All steps are made: waits until they are on all ranks. Collective.
  void end();
  bool is_over() const { return is_over_; }
  /// After `end`, which all ranks have reached.
  void leave();

 private:
  bool looks_at_state() const;
  void require_step_of_group();
  void require_whole_state();
  [[noreturn]] void refuse(const std::string& what, const std::string& fix);
  void recover(const std::exception_ptr& failure);
  void meet_after_step();
  bool can_fuse(Communicator& /*group*/) override { return false; }  // each rank has copies while the ranks change
  void check(Communicator& ranks) override;
  void receive(Communicator& ranks, const Standing& standing, const KeptState& kept) override;

  const ElasticState& state_;
  std::unique_ptr<ElasticRanks> ranks_;
  const LoopData data_;
  std::optional<StateWatch> watch_;  // until the loop ends
  StepBackup backup_;
  bool lets_in_ = false;
  bool is_new_ = false;  // the group
  std::int64_t steps_of_group_ = 0;
  bool is_refused_ = false;  // what the program does, whether ranks are lost or not
  bool is_over_ = false;
  std::unique_ptr<UpdateRescue> rescue_;  // of the only optimizer
};

}  // namespace lockstep
