#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/parallel/communication_hook.h"

namespace lockstep {

/// The settings of PyTorch's PowerSGDState, under their names and with their defaults.
struct PowerSGDOptions {
  std::int64_t matrix_approximation_rank = 1;
  /// The steps before it are averaged without compression. Nothing forbids 0 here: buckets are never built anew.
  std::int64_t start_powerSGD_iter = 1000;
  /// A gradient [r, c] is compressed where (r + c) * rank * this < r * c.
  double min_compression_rate = 2;
  bool use_error_feedback = true;  ///< what compression loses is added to the next step's gradient
  bool warm_start = true;          ///< an approximation starts from that of the step before
  double orthogonalization_epsilon = 0;
  std::uint64_t random_seed = 0;
};

/// Sends each large gradient as the product of two thin matrices (Vogels, Karimireddy and Jaggi, 2019,
/// arXiv:1905.13727): [r, rank] and [c, rank] numbers in place of r * c. Others travel as they are. Works in fp32.
/// @throws Error  if an option makes no sense
std::unique_ptr<CommunicationHook> power_sgd_hook(const PowerSGDOptions& options = {});

}  // namespace lockstep
