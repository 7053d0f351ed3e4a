#pragma once

#include <cstddef>
#include <vector>

#include "lockstep/optim/kernels/kernels.h"

namespace lockstep {

/// The part of a bucket's gradients that this rank reduces: elements [begin, end) of all sources.
struct OwnedGradients {
  GradientSource source;
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Computed from the reduced gradients, on LibTorch's intra-op threads; the result does not depend on their number.
double sum_of_squares(const std::vector<OwnedGradients>& parts);
double max_abs(const std::vector<OwnedGradients>& parts);
double min_abs(const std::vector<OwnedGradients>& parts);  ///< infinity if there are no elements
double sum_of_powers(const std::vector<OwnedGradients>& parts, double p);
bool all_finite(const std::vector<OwnedGradients>& parts);

}  // namespace lockstep
