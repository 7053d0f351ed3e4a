#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep {

/// What the last synchronised backward did, and the step of a fused optimizer after it.
struct StepStatistics {
  std::int64_t bytes = 0;  ///< of gradients, given to the communicator
  std::size_t buckets = 0;
  double waited_s = 0;                ///< the backward thread stood still for reductions
  double overlapped_s = 0;            ///< reductions ran while backward computed
  std::size_t late_gradients = 0;     ///< came after their bucket had left; they took a second round
  std::size_t unused_parameters = 0;  ///< without a gradient on any rank
};

}  // namespace lockstep
