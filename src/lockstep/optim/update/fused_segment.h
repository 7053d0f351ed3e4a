#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "lockstep/optim/kernels/kernels.h"

namespace lockstep {

/// Memory in which parameters lie one behind the other. The weights and the gradients of every rank have this layout.
/// This rank updates elements [begin, end).
struct FusedSegment {
  std::vector<at::Tensor> parameters;  ///< of one optimizer; contiguous, all fp32 or all fp64; in one segment only
  std::vector<std::int64_t> offsets;   ///< of each parameter, in elements; ascending, without overlap
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// One update of a segment. All pointers are to the segment's element 0.
struct SegmentUpdate {
  const void* weights = nullptr;
  void* weights_out = nullptr;  ///< gets the new weights; may be `weights`
  GradientSource gradient;      ///< one source per rank, in rank order
  /// Parameters of the segment that keep weights and state, because no rank has a gradient for them; empty: all are
  /// updated.
  std::vector<bool> skip;
  /// By parameter: the bf16 copy of its element 0, which gets the new weights too, if it has one. Empty: there are no
  /// copies.
  std::vector<WeightCopy> copies;
};

/// @throws Error  if the segment breaks one of the rules above
void check_segment(const FusedSegment& segment);

}  // namespace lockstep
