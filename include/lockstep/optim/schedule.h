#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep {

/// What the initial learning rate is multiplied by in update `step`, which counts from 0.
using Schedule = std::function<double(std::int64_t step)>;

/// The arguments of Hugging Face's get_scheduler, with its names and defaults. Each schedule looks at its own.
struct ScheduleOptions {
  std::int64_t num_warmup_steps = 0;
  std::int64_t num_training_steps = -1;  ///< -1: not given; constant, constant_with_warmup, inverse_sqrt do without
  double num_cycles = -1;                ///< -1: 0.5; 1 for cosine_with_restarts
  double lr_init = 0;                    ///< the optimizer's lr, for lr_end and min_lr
  double lr_end = 1e-7;                  ///< polynomial
  double power = 1;                      ///< polynomial
  std::int64_t timescale = -1;           ///< inverse_sqrt; -1: num_warmup_steps, or 10000 without
  double min_lr = -1;                    ///< cosine_with_min_lr and cosine_warmup_with_min_lr; -1: not given
  double min_lr_rate = -1;               ///< the same as a part of lr_init
  double warmup_lr_rate = -1;            ///< cosine_warmup_with_min_lr: where the warm-up starts; -1: at one step
  std::int64_t num_decay_steps = -1;     ///< warmup_stable_decay
  std::int64_t num_stable_steps = -1;    ///< warmup_stable_decay; -1: what the others leave of num_training_steps
  std::string warmup_type = "linear";    ///< warmup_stable_decay: linear, cosine or 1-sqrt
  std::string decay_type = "cosine";     ///< the same
  double min_lr_ratio = 0;               ///< warmup_stable_decay
};

/// The schedule that Hugging Face's get_scheduler knows under `name`, by its formulas: linear, cosine,
/// cosine_with_restarts, polynomial, constant, constant_with_warmup, inverse_sqrt, cosine_with_min_lr,
/// cosine_warmup_with_min_lr, warmup_stable_decay. (reduce_lr_on_plateau is the class ReduceLROnPlateau: it follows a
/// metric and not the step.)
///
/// @throws Error  if there is no such schedule, with the names that there are, or an argument that it needs is missing
Schedule make_schedule(const std::string& name, const ScheduleOptions& options);

/// The names that make_schedule takes.
const std::vector<std::string>& schedule_names();

}  // namespace lockstep
