#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <unordered_map>

#include "lockstep/optim/flat_optimizer.h"

namespace lockstep {

/// Scales the loss so that small gradients survive fp16, and adapts the scale, as torch.cuda.amp.GradScaler:
///
///     scaler.scale(loss).backward();
///     scaler.unscale_(optimizer);                       // only to look at gradients or clip them
///     scaler.step(optimizer);                           // skipped if a gradient is infinite or NaN
///     scaler.update();
///
/// With a FlatOptimizer, a step without `unscale_` leaves the gradients as they are: one pass checks them, and the
/// update itself divides by the scale. If ranks average their gradients before the step, all ranks decide alike and
/// keep the same scale. Not thread-safe.
class GradScaler {
 public:
  struct Options {
    double init_scale = 65536;
    double growth_factor = 2;     ///< after growth_interval steps without infinities
    double backoff_factor = 0.5;  ///< after a step that was skipped
    int growth_interval = 2000;
    bool enabled = true;  ///< false: all calls pass through
  };
  /// What a checkpoint keeps.
  struct State {
    double scale = 0;
    int growth_tracker = 0;  ///< steps without infinities since the last change
  };

  /// @throws Error  if growth_factor is not above 1, or backoff_factor not in (0, 1)
  explicit GradScaler(Options options);
  GradScaler() : GradScaler(Options()) {}

  /// Returns `loss` times the scale.
  at::Tensor scale(const at::Tensor& loss) const;
  /// Divides the gradients of `optimizer` by the scale; allowed once between two calls of `update`.
  /// @throws Error  if it was called already, if it is called after `step`, or if the optimizer's step itself sums the
  /// gradients over the ranks
  void unscale_(torch::optim::Optimizer& optimizer);
  /// Updates, unless a gradient is infinite or NaN. @return  true if it updated
  /// @throws Error  if it was called already since the last `update`
  bool step(torch::optim::Optimizer& optimizer);
  /// Updates with the additions that `options` ask for. `options.gradient_factor` applies on top of the loss scale;
  /// `check_finite` is always on.
  StepResult step(FlatOptimizer& optimizer, StepOptions options);
  /// Adapts the scale to the results of the steps since the last call. Call it once at the end of an iteration.
  /// @throws Error  if there was no step
  void update();
  /// Sets the scale, and starts a new iteration.
  void update(double new_scale);

  /// Whether the gradients of this optimizer were unscaled and its step has not been made yet.
  bool is_unscaled(const torch::optim::Optimizer& optimizer) const;
  /// Whether this is so for any optimizer.
  bool is_waiting() const;
  double get_scale() const { return options_.enabled ? state_.scale : 1; }
  bool is_enabled() const { return options_.enabled; }
  /// True if a step was skipped in the last iteration that `update` closed.
  bool last_step_was_skipped() const { return last_skipped_; }
  const State& state() const { return state_; }
  void load_state(const State& state) { state_ = state; }

 private:
  enum class Stage { Ready, Unscaled, Stepped };
  struct Progress {
    Stage stage = Stage::Ready;
    bool found_inf = false;
  };
  Progress& begin_step(torch::optim::Optimizer& optimizer);
  double inverse_scale() const;

  Options options_;
  State state_;
  std::unordered_map<const torch::optim::Optimizer*, Progress> progress_;  // since the last update
  bool last_skipped_ = false;
};

}  // namespace lockstep
