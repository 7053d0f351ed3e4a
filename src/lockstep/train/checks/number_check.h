#pragma once

#include "lockstep/train/trainer_context.h"

namespace lockstep {

/// Watches a training for losses that are not finite numbers.
class NumberCheck {
 public:
  /// @param context  outlives this object
  explicit NumberCheck(TrainerContext& context) : context_(context) {}

  /// Warns when the loss of the present update is the first that is NaN or infinite, and names the ranks. Collective in
  /// that case. @param loss  over all ranks. @param loss_of_rank  of this rank alone
  void check_loss(double loss, double loss_of_rank);

 private:
  void report(double loss_of_rank);

  TrainerContext& context_;
  bool last_was_number_ = true;
};

}  // namespace lockstep
