#pragma once

#include <cstddef>
#include <vector>

#include "lockstep/optim/update/fused_segment.h"
#include "lockstep/optim/update/optimizer_state.h"

namespace lockstep {

/// The parameters of an optimizer that all ranks share: this rank updates a part of each, and keeps the state of that
/// part.
class ShardedUpdate {
 public:
  explicit ShardedUpdate(OptimizerState& state) : state_(state) {}

  bool is_empty() const { return segments_.empty(); }
  /// See FlatOptimizer::shard and update_segment.
  void take(const std::vector<torch::optim::OptimizerParamGroup>& groups, std::vector<FusedSegment> segments);
  void update(std::size_t index, const SegmentUpdate& update);
  /// Forgets the segments and their state.
  void clear();

 private:
  UpdateRun run_of(std::size_t index, std::size_t parameter, const SegmentUpdate& update) const;

  OptimizerState& state_;
  std::vector<FusedSegment> segments_;
  std::vector<std::vector<std::size_t>> groups_;  // parameter group of each parameter of each segment
};

}  // namespace lockstep
