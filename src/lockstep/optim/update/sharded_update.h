#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
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
  /// Whether the state of some segment lies in memory that ranks share.
  bool shares_state() const;
  /// See FlatOptimizer::shard and update_segment.
  void take(const std::vector<torch::optim::OptimizerParamGroup>& groups, std::vector<FusedSegment> segments);
  void update(std::size_t index, const SegmentUpdate& update);
  /// Forgets the segments and their state.
  void clear();

 private:
  UpdateRun run_of(std::size_t index, std::size_t parameter, const SegmentUpdate& update) const;
  void place(std::size_t index, const SegmentUpdate& update, std::int64_t begin, UpdateRun& run) const;
  void allocate_state(std::vector<FusedSegment>& segments, const std::vector<std::vector<std::size_t>>& groups);
  void move_to_shared(std::size_t index, std::size_t parameter);
  void find_in_shared(std::size_t index, std::size_t parameter);
  void update_range(std::size_t index, const SegmentUpdate& update) const;
  UpdateRun run_in_range(std::size_t index, std::size_t parameter, const SegmentUpdate& update,
                         std::pair<std::int64_t, std::int64_t> part) const;
  void count(std::size_t index, const SegmentUpdate& update);

  OptimizerState& state_;
  std::vector<FusedSegment> segments_;
  std::vector<std::vector<std::size_t>> groups_;  // parameter group of each parameter of each segment
  std::vector<std::vector<at::Tensor>> shared_;   // by segment and buffer: the state of all ranks' elements, if shared
};

}  // namespace lockstep
