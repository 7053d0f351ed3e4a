#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep {

/// Measures the last synchronised backward, and the step of a fused optimizer after it.
struct StepStatistics {
  std::int64_t bytes = 0;  ///< bytes of gradients given to the communicator
  std::size_t buckets = 0;
  double waited_s = 0;                ///< seconds in which the backward thread waited for reductions
  double waited_for_slot_s = 0;       ///< the part of `waited_s` before a bucket left: FuseOptions::slots
  double overlapped_s = 0;            ///< seconds in which reductions ran while backward computed
  std::size_t late_gradients = 0;     ///< gradients that arrived after their bucket had left; reduced later
  std::size_t unused_parameters = 0;  ///< parameters without a gradient on any rank
};

}  // namespace lockstep
