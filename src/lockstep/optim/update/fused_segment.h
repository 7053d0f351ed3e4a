#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "lockstep/optim/kernels/kernels.h"
#include "lockstep/optim/update/update_run.h"

namespace lockstep {

/// Memory in which parameters lie one behind the other. The weights and the gradients of every rank have this layout.
/// This rank updates elements [begin, end).
struct FusedSegment {
  std::vector<at::Tensor> parameters;  ///< of one optimizer; contiguous, all fp32 or all fp64; in one segment only
  std::vector<std::int64_t> offsets;   ///< of each parameter, in elements; ascending, without overlap
  std::int64_t begin = 0;
  std::int64_t end = 0;
  /// If set, the state of all ranks' elements lies in memory that they share. Called once for each buffer of the state,
  /// on all ranks alike; returns memory for all of the segment's elements, with unspecified content.
  std::function<at::Tensor()> allocate_state = {};
  /// With it: that memory has the state already, after so many updates of each parameter. What the optimizer had of it
  /// is forgotten.
  std::optional<std::vector<std::int64_t>> steps = {};
};

/// One update of a segment, or of a part of it. All pointers are to the segment's element 0.
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
  /// With state in shared memory: the elements to update, of whichever rank. Threads may update ranges side by side.
  /// Nothing is counted until an update without a range, which changes no element, says that all of them are updated.
  struct Range {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    UndoLog undo;  ///< of the segment's weights and state; the range is updated in order, by this thread
  };
  std::optional<Range> range;
};

/// @throws Error  if the segment breaks one of the rules above
void check_segment(const FusedSegment& segment);

}  // namespace lockstep
