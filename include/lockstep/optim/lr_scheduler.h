#pragma once

#include <torch/optim/optimizer.h>
#include <torch/optim/schedulers/lr_scheduler.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/optim/schedule.h"

namespace lockstep {

/// Sets the learning rate of every parameter group to its initial rate times a schedule, as PyTorch's LambdaLR.
///
///     LambdaLR scheduler(optimizer, make_schedule("linear", options));
///     for (...) { ...; optimizer.step(); scheduler.step(); }
///
/// Works on any of LibTorch's optimizers. The constructor sets the rates of step 0; LibTorch's own schedulers do so
/// only in the first call of `step`. Groups that are added later start from their own rate. Not thread-safe.
class LambdaLR final : public torch::optim::LRScheduler {
 public:
  /// What a checkpoint keeps.
  struct State {
    std::int64_t last_step = 0;
    std::vector<double> initial_lrs;  ///< by parameter group
  };

  /// @param optimizer  must outlive this object
  LambdaLR(torch::optim::Optimizer& optimizer, Schedule schedule);

  /// The optimizer's present rates, by parameter group.
  std::vector<double> get_last_lr() const { return get_current_lrs(); }
  /// The step that these rates belong to: the number of calls of `step`.
  std::int64_t last_step() const { return last_step_; }

  State state() const { return {last_step_, initial_lrs_}; }
  /// Continues from `state`, and sets the rates.
  /// @throws Error  if `state` has another number of groups
  void load_state(const State& state);

 private:
  std::vector<double> get_lrs() override;
  std::vector<double> lrs_at_last_step();

  torch::optim::Optimizer& optimizer_;
  Schedule schedule_;
  std::vector<double> initial_lrs_;
  std::int64_t last_step_ = -1;
};

/// Lowers the learning rates when a metric stops getting better, as PyTorch's class of this name.
class ReduceLROnPlateau {
 public:
  struct Options {
    std::string mode = "min";            ///< min: lower is better; max
    double factor = 0.1;                 ///< rates are multiplied by it; below 1
    int patience = 10;                   ///< calls without an improvement that are tolerated
    double threshold = 1e-4;             ///< the smallest change that counts as an improvement
    std::string threshold_mode = "rel";  ///< rel: as a part of the best value; abs
    int cooldown = 0;                    ///< calls after a reduction that are not counted
    double min_lr = 0;                   ///< no rate becomes lower
    double eps = 1e-8;                   ///< smaller changes of a rate are not made
  };
  /// What a checkpoint keeps. The rates are not part of it: they are options of the optimizer.
  struct State {
    double best = 0;
    int num_bad_epochs = 0;
    int cooldown_counter = 0;
  };

  /// @throws Error  if an option is invalid
  ReduceLROnPlateau(torch::optim::Optimizer& optimizer, Options options);
  explicit ReduceLROnPlateau(torch::optim::Optimizer& optimizer) : ReduceLROnPlateau(optimizer, Options()) {}

  /// Records the metric. @return  true if rates were lowered
  bool step(double metric);

  const State& state() const { return state_; }
  void load_state(const State& state) { state_ = state; }

 private:
  bool is_better(double metric) const;
  bool lower_rates();

  torch::optim::Optimizer& optimizer_;
  Options options_;
  State state_;
};

}  // namespace lockstep
