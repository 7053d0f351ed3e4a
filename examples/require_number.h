#pragma once

// How the training loops end when their loss is no number.
#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "lockstep/base/error.h"

/// A loss that is no number stays one: training on would only hide it, and end as if all were well.
/// @param epoch  from 0, as loops count
/// @param step   as the program prints it
inline void require_number(const torch::Tensor& loss, std::int64_t epoch, std::int64_t step) {
  if (std::isfinite(loss.item<double>())) return;
  throw lockstep::Error("the loss is no number (nan or infinity)",
                        "epoch " + std::to_string(epoch + 1) + ", step " + std::to_string(step),
                        "lower --lr, or look at the data");
}
