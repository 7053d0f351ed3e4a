#pragma once

#include <c10/util/SmallVector.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/optim/kernels/kernels.h"

namespace lockstep {

/// Elements that one kernel call updates: one parameter, or several that lie one behind the other in all memory
/// involved.
struct UpdateRun {
  static constexpr std::size_t kMaxBuffers = 3;

  std::size_t group = 0;  ///< parameter group
  std::int64_t step = 0;  ///< number of this update, from 1
  bool first = false;     ///< the buffers are not set yet
  std::size_t numel = 0;
  ElementType type = ElementType::Float;  ///< type of weights and buffers
  const std::byte* param = nullptr;
  std::byte* param_out = nullptr;
  std::array<std::byte*, kMaxBuffers> buffers{};  ///< unused ones are null
  ElementType gradient_type = ElementType::Float;
  c10::SmallVector<void*, 4> sources;
  WeightCopy copy;  ///< from the run's first element on
  UndoLog undo;     ///< likewise
};

/// The runs of one step.
class RunList {
 public:
  /// Appends `run`. If it touches the last one and is of the same kind, lengthens that instead. Runs with a bf16 copy
  /// stay apart: their copies have an order of their own.
  void add(const UpdateRun& run);
  /// Calls `update(run, begin, end)` so that every element of every run is in exactly one range, on LibTorch's intra-op
  /// threads. Runs with an undo log are executed by this thread alone, one after the other.
  using Update = std::function<void(const UpdateRun& run, std::size_t begin, std::size_t end)>;
  void execute(const Update& update) const;
  std::size_t size() const { return runs_.size(); }

 private:
  std::vector<UpdateRun> runs_;
};

}  // namespace lockstep
