#include "lockstep/detail/train/prepared_optimizer.h"

#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/train/accelerator/update_state.h"

namespace lockstep {

void PreparedOptimizer::step() {
  if (!state_->accumulation.is_last()) return;
  state_->open_backwards = 0;
  if (!state_->scaler) {
    optimizer_->step();
    return;
  }
  GradScaler& scaler = *state_->scaler;
  if (scaler.step(*optimizer_)) {
    state_->left.erase(optimizer_);
  } else {
    state_->left.insert(optimizer_);
  }
  // All optimizers share the scale, so it must not change while another one's unscaled gradients wait for their step.
  if (!scaler.is_waiting()) scaler.update();
}

void PreparedOptimizer::zero_grad() {
  if (state_->accumulation.window() > 1 && state_->open_backwards > 0) return;
  // FlatOptimizer hides LibTorch's zero_grad, which cannot clear gradients that are views.
  if (auto* flat = dynamic_cast<FlatOptimizer*>(optimizer_)) {
    flat->zero_grad();
  } else {
    optimizer_->zero_grad();
  }
}

bool PreparedOptimizer::step_was_skipped() const { return state_->left.count(optimizer_) != 0; }

void PreparedScheduler::step() {
  if (state_->accumulation.is_last() && state_->left.empty()) scheduler_->step();
}

}  // namespace lockstep
