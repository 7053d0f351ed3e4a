#pragma once

// Ends a training loop whose loss is NaN or infinite.
#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "lockstep/base/error.h"

/// Throws if the loss is NaN or infinite. It would stay so: to train on would only hide it, and end without an error.
/// @param epoch  from 0, as loops count
/// @param step   as the program prints it
inline void require_number(const torch::Tensor& loss, std::int64_t epoch, std::int64_t step) {
  if (std::isfinite(loss.item<double>())) return;
  throw lockstep::Error("the loss is NaN or infinite",
                        "epoch " + std::to_string(epoch + 1) + ", step " + std::to_string(step),
                        "lower --lr, or look at the data");
}
