#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/parallel/fused/recovery/update_rescue.h"
#include "lockstep/train/folder/first_rank.h"
#include "lockstep/train/loop/gradient_engine.h"
#include "lockstep/train/loop/startup_advice.h"
#include "lockstep/train/loop/training_checkpoints.h"
#include "lockstep/train/loop/training_parts.h"
#include "lockstep/train/loop/training_update.h"
#include "lockstep/train/slices/update_totals.h"
#include "lockstep/train/survival/session_memory.h"
#include "lockstep/train/survival/session_state.h"
#include "lockstep/train/train_output.h"

namespace lockstep {

struct Standing;

/// One call of Trainer::train: the loop over epochs, updates and micro-batches, and what follows each. Internal.
class TrainingSession {
 public:
  explicit TrainingSession(TrainerContext& context);
  ~TrainingSession();
  TrainingSession(const TrainingSession&) = delete;
  TrainingSession& operator=(const TrainingSession&) = delete;
  TrainOutput run();

 private:
  // No checkpoint contains the model before the first update, so that evaluation is not compared with the best model.
  enum class Evaluate { ToLook, ToCompare };

  void reset_state();
  std::optional<std::string> share_before_resuming();
  void keep_shards();
  void print_advice(const std::string& fused) {
    context_.print(startup_text(context_, parts_.plan, choice_, fused, checkpoints_.changes()));
  }
  TrainOutput end_at_once();

  // training_session_stages.cpp
  void run_stages();
  void begin_stage();
  void run_stage();
  void begin_epoch();
  void end_epoch();
  void log_training_loss();
  void load_best();

  // survival/training_session_survival.cpp
  void recover(const std::exception_ptr& failure);
  void regroup(const std::exception_ptr& failure);
  /// Gradients and, if it is possible, a fused update. @return  how it is fused; empty: it is not
  /// @param are_level  all ranks have the same weights and buffers
  std::string make_engine(bool are_level);
  void tell_refused_fuse(const std::string& refusal);
  std::unique_ptr<UpdateRescue> make_rescue();
  void settle();
  /// Equal on all ranks after they have changed.
  struct Regrouped {
    /// In whose memory weights and the optimizer's state stay, as MemoryHosts counts hosts: those with a rank that
    /// knows what is there. Others get them from these. Empty if they do not stay.
    std::vector<bool> hosts_with_state;
    bool has_new = false;  ///< some rank takes a lost one's place, and has no state yet
    bool stays_in_memory() const { return !hosts_with_state.empty(); }
  };
  Regrouped look_at_ranks() const;
  bool settle_late(const Standing& standing);
  void receive_state(const Standing& standing, const Regrouped& ranks);

  void evaluate(Evaluate purpose);
  void save();
  TrainOutput finish(double runtime_s);

  TrainerContext& context_;
  const TrainingArguments& args_;
  std::shared_ptr<TrainableModel> model_;
  ParallelChoice choice_;
  TrainingParts parts_;
  TrainingCheckpoints checkpoints_;
  std::shared_ptr<JobMemoryMap> job_memory_;  // null unless lost ranks are survived
  std::unique_ptr<UpdateRescue> rescue_;      // null unless lost ranks are survived
  std::string fuse_refusal_;                  // why the present ranks do not fuse; empty: they do, or need not
  std::shared_ptr<GradientEngine> engine_;
  TrainingUpdate update_;
  SessionState state_;
  FirstRank first_;
  std::unique_ptr<SessionMemory> memory_;  // null unless lost ranks are survived

  bool keeps_shards_ = false;  // the Trainer has the engine from now on

  bool must_settle_ = false;      // the ranks have changed
  bool has_regrouped_ = false;    // in a step, which then failed
  bool is_new_ = false;           // this process takes a lost rank's place, and has no state yet
  bool others_are_done_ = false;  // with the present stage
};

}  // namespace lockstep
