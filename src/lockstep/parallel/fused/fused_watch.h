#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/parallel/fused/gradients/stand_ins.h"
#include "lockstep/parallel/fused/tensor_sample.h"

namespace lockstep {

/// What is wrong with a parameter of a fused optimizer. Ranks exchange the values; the largest wins.
enum class FusedFault : std::uint8_t {
  None = 0,
  GradientChanged = 1,  ///< since backward, without autograd's knowledge, as LibTorch's clipping does, or by a clamp
  GradientWritten = 2,  ///< after it was sent, so that only a stand-in was written
  GradientDropped = 3,  ///< after it was sent, and not together with all other gradients
  WeightChanged = 4,    ///< since backward, past autograd, or by another rank that shares the weights
  WeightWritten = 5,    ///< since backward, by something other than the fused update
  WeightMoved = 6,      ///< to other memory, since backward
  WeightConverted = 7,  ///< to another dtype, shape or device
  CopyStale = 8,        ///< forward has read a bf16 copy without a write that the watch had not seen
  NoSliceSum = 9,       ///< the gradient is not a sum of slices, though they are in use
};

/// How weights were written between two updates, while no gradient waited for its update.
enum class WeightWrite : std::uint8_t {
  None = 0,
  Seen = 1,   ///< elements changed: another rank wrote shared weights, or a write used `data()`
  Known = 2,  ///< autograd has counted a write on this rank
};

/// Notices writes to weights and gradients of a fused optimizer that its update does not make: another optimizer that
/// updates the same weights, or clipping that takes this rank's gradients for the average.
///
/// Weights may be written while none of their gradients waits for its update: before backward, after the update, or
/// after `zero_grad`. A write between backward and update means that something else takes the update's place. Permitted
/// writes are recorded, because the replicas would differ if ranks wrote different values.
///
/// Reads a few elements of each parameter, never all.
class FusedWatch {
 public:
  /// @param parameters  in the order of the indices below; undefined ones are not watched
  /// @param stand_ins   of the same parameters' gradients; must outlive this object
  FusedWatch(std::vector<at::Tensor> parameters, const StandIns& stand_ins);

  /// Backward has added to the gradient of parameter `index`.
  void gradient_arrived(std::size_t index);
  /// The gradient of parameter `index` was taken away and sent.
  void gradient_sent(std::size_t index) { gradients_[index].reset(); }
  /// Keeps what is wrong with gradients now: the next backward adds to them.
  void keep_gradient_faults();
  /// Whether gradients of a backward wait for an update.
  bool is_waiting() const { return is_waiting_; }
  /// Whether all waiting gradients are zero or undefined. This is the effect of `zero_grad` of the module or of
  /// torch::optim::Optimizer, which no derived class can intercept.
  bool gradients_are_gone() const;
  /// Whether waiting gradients may be dropped. Not if weights were written in place since backward, as another
  /// optimizer would do. Once after each update it is allowed nevertheless: a program may bound its weights before
  /// zero_grad.
  bool allows_drop();
  /// Waiting gradients were dropped.
  void drop_gradients();
  /// The update was made; weights have their intended values.
  void start_over();
  /// The fused update itself has scaled the gradients.
  void take_gradients();

  /// Looks for writes now. Otherwise the first gradient of a backward does.
  void note_writes();
  /// Writes found since the update, by parameter.
  const std::vector<WeightWrite>& writes() const { return writes_; }
  bool any_writes() const;
  /// Whether parameter `index` has the values that the last update left, as far as its sample shows.
  bool is_as_updated(std::size_t index) const;
  /// Accepts the present weights, whatever was written.
  void take_weights();
  /// Parameter `index` has got memory of this rank, because the program is about to write to it.
  void note_own_memory(std::size_t index) { has_own_memory_[index] = true; }
  bool has_own_memory(std::size_t index) const { return has_own_memory_[index]; }

  /// What has happened to parameter `index` since then.
  FusedFault fault(std::size_t index) const;

 private:
  void forget_gradients();
  bool is_gone(std::size_t index) const;
  FusedFault weight_fault(std::size_t index) const;
  FusedFault gradient_fault(std::size_t index) const;
  FusedFault sample_fault(std::size_t index) const;

  std::vector<at::Tensor> parameters_;
  const StandIns& stand_ins_;
  std::vector<WeightSample> weights_;
  std::vector<GradientSample> gradients_;
  std::vector<WeightWrite> writes_;
  std::vector<FusedFault> kept_faults_;
  std::vector<bool> has_own_memory_;
  std::uint64_t turn_ = 0;
  bool is_waiting_ = false;
  bool has_updated_ = false;  // since the last drop of gradients whose weights had been written
};

}  // namespace lockstep
