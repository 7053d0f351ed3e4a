#pragma once

#include <memory>
#include <string>

#include "lockstep/parallel/fused/recovery/update_rescue.h"
#include "lockstep/train/loop/gradient_engine.h"
#include "lockstep/train/loop/training_parts.h"

namespace lockstep {

/// What makes a training's gradients, and shares the optimizer's work out if it can. Ranks that change get another one.
class SessionEngine {
 public:
  /// @param choice  for the ranks that are there. All outlive this object.
  SessionEngine(TrainerContext& context, TrainingParts& parts, ParallelChoice& choice)
      : context_(context), parts_(parts), choice_(choice) {}
  ~SessionEngine();
  SessionEngine(const SessionEngine&) = delete;
  SessionEngine& operator=(const SessionEngine&) = delete;

  /// For a training that survives lost ranks, before the first `make`.
  UpdateRescue& survive(std::unique_ptr<UpdateRescue> rescue);

  /// Makes it, and fuses the update if that is possible. Collective. @return  how it is fused; empty: it is not
  /// @param are_level  all ranks have the same weights and buffers. @param is_new  this rank has no state yet
  std::string make(bool are_level, bool is_new = false);
  GradientEngine* get() const { return engine_.get(); }
  /// Gives it up, with the group that it holds.
  void reset() { engine_.reset(); }
  /// The ranks have changed: chooses again what the next `make` makes.
  void choose_again();
  /// After the training each rank still has its share of the weights alone, for evaluations and saving.
  void keep_shards();

 private:
  void tell_refused_fuse(const std::string& refusal);

  TrainerContext& context_;
  TrainingParts& parts_;
  ParallelChoice& choice_;
  std::unique_ptr<UpdateRescue> rescue_;  // null unless lost ranks are survived
  std::shared_ptr<GradientEngine> engine_;
  std::string fuse_refusal_;   // why the present ranks do not fuse; empty: they do, or need not
  bool keeps_shards_ = false;  // the Trainer has the engine from now on
};

}  // namespace lockstep
