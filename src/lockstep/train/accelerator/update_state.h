#pragma once

#include <torch/optim/optimizer.h>

#include <cstdint>
#include <optional>
#include <set>

#include "lockstep/optim/grad_scaler.h"
#include "lockstep/train/accelerator/accumulation.h"

namespace lockstep {

/// The state that prepared objects share with their Accelerator.
struct UpdateState {
  explicit UpdateState(std::int64_t accumulation_steps) : accumulation(accumulation_steps) {}
  GradientAccumulation accumulation;
  std::int64_t open_backwards = 0;                ///< since the last update
  std::optional<GradScaler> scaler;               ///< for fp16
  std::set<const torch::optim::Optimizer*> left;  ///< skipped their last step, because a gradient was NaN or infinite
};

}  // namespace lockstep
