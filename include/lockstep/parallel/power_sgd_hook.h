#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/parallel/communication_hook.h"

namespace lockstep {

/// The settings of PyTorch's PowerSGDState, under their names and with their defaults.
struct PowerSGDOptions {
  std::int64_t matrix_approximation_rank = 1;
  /// Steps before this one are averaged without compression. 0 is allowed here: buckets are never rebuilt.
  std::int64_t start_powerSGD_iter = 1000;
  /// A gradient [r, c] is compressed if (r + c) * rank * this < r * c.
  double min_compression_rate = 2;
  bool use_error_feedback = true;  ///< the compression's loss is added to the next step's gradient
  bool warm_start = true;          ///< an approximation starts from the previous step's result
  double orthogonalization_epsilon = 0;
  std::uint64_t random_seed = 0;
};

/// Sends each large gradient as the product of two thin matrices (Vogels, Karimireddy and Jaggi, 2019,
/// arXiv:1905.13727): [r, rank] and [c, rank] numbers in place of r * c. Other gradients are sent uncompressed. Works
/// in fp32.
/// @throws Error  if an option is invalid
std::unique_ptr<CommunicationHook> power_sgd_hook(const PowerSGDOptions& options = {});

}  // namespace lockstep
