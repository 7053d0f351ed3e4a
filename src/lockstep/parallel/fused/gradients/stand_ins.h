#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

/// What a program sees in `grad` of a parameter whose gradient is no longer on this rank, but part of a sum that its
/// owner keeps: a tensor of the parameter's sizes whose strides are all 0, over one NaN.
///
/// LibTorch refuses to write to memory that several elements share, so clipping, `mul_` and autograd's own addition
/// throw; what reads it gets NaN. `zero_` and `detach_`, which are LibTorch's `zero_grad`, are allowed and leave a 0.
/// Any other value is a gradient of the program's own. A single element shares its memory with no other: there the
/// value is the largest finite number, which those writes change, or else they change the tensor's version.
class StandIns {
 public:
  /// What this rank has of a parameter's gradient, beside what autograd or the program put into `grad`.
  enum class Means : std::uint8_t {
    Nothing,
    Zeros,  ///< a gradient that was set to zero
    Sum,    ///< it is in the sum that the owner keeps
  };
  /// What is in `grad`.
  enum class State : std::uint8_t {
    Gone,     ///< no tensor
    Intact,   ///< the tensor that `show` put there
    Zeroed,   ///< that tensor, set to zero
    Written,  ///< that tensor, with another value
    Other,    ///< another tensor
  };

  /// @param parameters  undefined ones have no gradient that is sent
  explicit StandIns(std::vector<at::Tensor> parameters);

  Means means(std::size_t index) const { return entries_[index].means; }
  State state(std::size_t index) const;
  /// Whether some parameter's gradient is in a sum.
  bool any_sum() const;

  /// Lets `grad` be the tensor that has this meaning, unless it is another tensor, which then counts in addition.
  void show(std::size_t index, Means means);
  /// Takes the tensor out of `grad`, where autograd could not add to it, and keeps its meaning. `show` puts it back.
  void take_off(std::size_t index);
  /// Gives the parameter another meaning, without a tensor that shows it.
  void set_means(std::size_t index, Means means) { entries_[index].means = means; }

 private:
  struct Entry {
    at::Tensor element;  // the memory of the tensor in `grad`
    std::uint64_t version = 0;
    Means means = Means::Nothing;
  };
  bool is_shown(const Entry& entry, const at::Tensor& grad) const;

  std::vector<at::Tensor> parameters_;
  std::vector<Entry> entries_;
};

}  // namespace lockstep
