#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/backward/gradient_keeper.h"
#include "lockstep/parallel/update/update_part.h"

namespace lockstep {

/// This rank's gradients of a fused update, from their arrival in backward to the update that uses them up. Either they
/// stay in their buckets until the update (PlacedGradients), or their owner keeps sums and the buckets' memory is used
/// again at once (PooledGradients).
class FusedGradients : public UpdatePart, public GradientKeeper {
 public:
  bool has_steps() const override { return true; }
  /// Finds out which gradients this rank has. @param contributed  by parameter: set to 1 if this rank has a gradient
  virtual void collect(std::vector<std::uint8_t>& contributed) = 0;
  /// Whether sums of all ranks' gradients exist that hold everything this rank has.
  virtual bool are_summed() const = 0;
  /// The gradients are this rank's sums of slices now, which are in buckets alone.
  virtual void take_slice_sums() {}
  /// Parameters whose gradients are not these sums: written since, or never made for this update.
  virtual std::vector<std::size_t> without_slice_sum() const { return {}; }
  /// The sums of all ranks' gradients are begun.
  virtual void sums_begun() {}
  /// Reduces what was not summed, in the update. Collective. @param active  number of ranks that have inputs
  virtual void reduce(ReduceOp op, int active) = 0;
  /// Multiplies what this rank has of the gradients in elements [begin, end) of a bucket, besides sums.
  virtual void scale(std::size_t bucket, std::int64_t begin, std::int64_t end, double factor) = 0;
  /// The update has used the gradients. Sets `grad` of every parameter for which some rank had one.
  /// @return  number of parameters for which no rank had one
  virtual std::size_t end_update(const std::vector<std::uint8_t>& contributed) = 0;
  /// Sets all gradients to zero. @param is_done  the update has left zeros where it read gradients
  virtual void zero(bool is_done) = 0;
  /// The program drops the gradients.
  virtual void drop() = 0;
  /// Drops them if the program has dropped what was left of them after an update.
  virtual void notice_drop() = 0;
  /// Counts writes to the gradients; equal counts mean that nothing was written.
  virtual std::uint64_t writes() const = 0;
  /// The averages of all ranks' gradients that owners keep, by parameter, on every rank; undefined or missing if owners
  /// keep none. Collective.
  virtual std::vector<at::Tensor> gather() = 0;
  /// Leaves the parameters as they are without an update. Not collective.
  virtual void leave() = 0;
};

}  // namespace lockstep
