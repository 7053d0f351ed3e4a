#pragma once

#include <torch/optim/optimizer.h>
#include <torch/optim/schedulers/lr_scheduler.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/optim/schedule.h"

namespace lockstep {

/// Sets the learning rate of every parameter group to its initial one times a schedule, as PyTorch's LambdaLR.
///
///     LambdaLR scheduler(optimizer, make_schedule("linear", options));
///     for (...) { ...; optimizer.step(); scheduler.step(); }
///
/// Works on any optimizer of LibTorch's kind. Construction sets the rates of step 0, which LibTorch's own schedulers
/// leave to the first call of `step`. Groups that are added later start from the rate they come with. Not thread-safe.
class LambdaLR final : public torch::optim::LRScheduler {
 public:
  /// What a checkpoint keeps.
  struct State {
    std::int64_t last_step = 0;
    std::vector<double> initial_lrs;  ///< by parameter group
  };

  /// @param optimizer  must outlive this object
  LambdaLR(torch::optim::Optimizer& optimizer, Schedule schedule);

  /// The rates that the optimizer has now, by parameter group.
  std::vector<double> get_last_lr() const { return get_current_lrs(); }
  /// The step whose rates these are: the number of calls of `step`.
  std::int64_t last_step() const { return last_step_; }

  State state() const { return {last_step_, initial_lrs_}; }
  /// Goes on where `state` was taken, and sets the rates.
  /// @throws Error  if it is of another number of groups
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
    double factor = 0.1;                 ///< rates are multiplied by it
    int patience = 10;                   ///< calls without an improvement that are put up with
    double threshold = 1e-4;             ///< what counts as an improvement
    std::string threshold_mode = "rel";  ///< rel: as a part of the best value; abs
    int cooldown = 0;                    ///< calls after a reduction in which nothing counts
    double min_lr = 0;
    double eps = 1e-8;  ///< smaller changes of a rate are not made
  };
  /// What a checkpoint keeps, apart from the rates, which are the optimizer's options.
  struct State {
    double best = 0;
    int num_bad_epochs = 0;
    int cooldown_counter = 0;
  };

  /// @throws Error  if an option makes no sense
  ReduceLROnPlateau(torch::optim::Optimizer& optimizer, Options options);
  explicit ReduceLROnPlateau(torch::optim::Optimizer& optimizer) : ReduceLROnPlateau(optimizer, Options()) {}

  /// Takes note of the metric. @return  true if rates were lowered
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
