#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep {

/// The factor of the initial learning rate in update `step`, which counts from 0. All steps below are updates: steps of
/// the optimizer, not micro-batches.
using Schedule = std::function<double(std::int64_t step)>;

/// The arguments of Hugging Face's get_scheduler, with its names and defaults. Each schedule uses only its own.
struct ScheduleOptions {
  std::int64_t num_warmup_steps = 0;  ///< updates in which the factor rises
  /// Updates of the whole training; -1: not given. constant, constant_with_warmup and inverse_sqrt need none.
  std::int64_t num_training_steps = -1;
  double num_cycles = -1;              ///< waves of the cosine after the warm-up; -1: 0.5; 1 for cosine_with_restarts
  double lr_init = 0;                  ///< the optimizer's lr, which lr_end and min_lr relate to
  double lr_end = 1e-7;                ///< polynomial: the learning rate of the last update
  double power = 1;                    ///< polynomial: exponent of the fall; 1: a line
  std::int64_t timescale = -1;         ///< inverse_sqrt: updates; -1: num_warmup_steps, or 10000 without warm-up
  double min_lr = -1;                  ///< cosine_with_min_lr and cosine_warmup_with_min_lr; -1: not given
  double min_lr_rate = -1;             ///< min_lr as a fraction of lr_init
  double warmup_lr_rate = -1;          ///< cosine_warmup_with_min_lr: where the warm-up starts; -1: at one step
  std::int64_t num_decay_steps = -1;   ///< warmup_stable_decay: updates in which it falls; must be given
  std::int64_t num_stable_steps = -1;  ///< warmup_stable_decay: updates at the full rate; -1: the rest of the training
  std::string warmup_type = "linear";  ///< warmup_stable_decay: linear, cosine or 1-sqrt
  std::string decay_type = "cosine";   ///< warmup_stable_decay: linear, cosine or 1-sqrt
  double min_lr_ratio = 0;             ///< warmup_stable_decay: the factor at the start and at the end
};

/// The schedule that Hugging Face's get_scheduler calls `name`, by its formulas: linear, cosine, cosine_with_restarts,
/// polynomial, constant, constant_with_warmup, inverse_sqrt, cosine_with_min_lr, cosine_warmup_with_min_lr,
/// warmup_stable_decay. (reduce_lr_on_plateau is the class ReduceLROnPlateau, because it follows a metric instead of
/// the step.)
///
/// @throws Error  if the name is unknown (it lists the known names); if num_training_steps is required and not given;
/// polynomial: unless lr_init is above lr_end; inverse_sqrt: if timescale is not above 0; the two with a min_lr: unless
/// one of min_lr and min_lr_rate is given, min_lr with lr_init; warmup_stable_decay: if num_decay_steps is not given,
/// or neither num_stable_steps nor num_training_steps is, or a type is unknown
Schedule make_schedule(const std::string& name, const ScheduleOptions& options);

/// The names that make_schedule accepts.
const std::vector<std::string>& schedule_names();

}  // namespace lockstep
