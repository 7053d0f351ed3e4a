#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

/// A few elements of a tensor, which show whether it was written since. A version counter is not enough: LibTorch's own
/// SGD and clipping write through `data()`, which has another counter.
class TensorSample {
 public:
  /// Remembers four evenly spaced elements.
  void take(const at::Tensor& tensor);
  /// Remembers sixteen elements, the largest first, and compares only that one: scaling changes it unless it is zero,
  /// and a clamp changes it before others. @param turn  selects the sixteen
  void take_largest(const at::Tensor& tensor, std::uint64_t turn);
  void reset() { data_ = nullptr; }
  bool is_taken() const { return data_ != nullptr; }

  /// `tensor` still has the memory that it had then.
  bool is_in_place(const at::Tensor& tensor) const { return tensor.data_ptr() == data_; }
  /// Autograd has counted a write since.
  bool has_new_version(const at::Tensor& tensor) const { return tensor._version() != version_; }
  /// A compared element has other bits.
  bool has_new_elements(const at::Tensor& tensor) const;
  /// Autograd has counted a write since, and the first remembered element is zero.
  bool was_zeroed(const at::Tensor& tensor) const;
  /// The remembered elements were cut to a bound: every changed element was larger and now has the bound of its sign,
  /// and all smaller ones are unchanged. False if it may have been a multiplication as well.
  bool was_clamped(const at::Tensor& tensor) const;

 private:
  static constexpr std::size_t kElements = 16;
  void begin(const at::Tensor& tensor);
  void remember(const at::Tensor& tensor, std::int64_t index);

  const void* data_ = nullptr;
  std::uint32_t version_ = 0;
  std::size_t count_ = 0;
  std::size_t compared_ = 0;
  std::array<std::int64_t, kElements> indices_{};
  std::array<std::uint64_t, kElements> bits_{};
};

/// What is wrong with a parameter of a fused optimizer. Ranks exchange the values; the largest wins.
enum class FusedFault : std::uint8_t {
  None = 0,
  GradientChanged = 1,  ///< since backward, without autograd's knowledge, as LibTorch's clipping does, or by a clamp
  WeightWritten = 2,    ///< since backward, by something other than the fused step
  WeightMoved = 3,      ///< to other memory, since backward
  WeightConverted = 4,  ///< to another dtype, shape or device
};

/// How weights were written between two steps, while no gradient waited for its step.
enum class WeightWrite : std::uint8_t {
  None = 0,
  Seen = 1,   ///< elements changed: another rank wrote shared weights, or a write used `data()`
  Known = 2,  ///< autograd has counted a write on this rank
};

/// Notices writes to weights and gradients of a fused optimizer that its step does not make: another optimizer that
/// updates the same weights, or clipping that takes this rank's gradients for the average.
///
/// Weights may be written while none of their gradients waits for its step: before backward, after the step, or after
/// `zero_grad`. A write between backward and step means that something else takes the step's place. Permitted writes
/// are recorded, because the replicas would differ if ranks wrote different values.
///
/// Reads a few elements of each parameter, never all.
class FusedWatch {
 public:
  /// @param parameters  in the order of the indices below; undefined ones are not watched
  explicit FusedWatch(std::vector<at::Tensor> parameters);

  /// Backward has added to the gradient of parameter `index`.
  void gradient_arrived(std::size_t index);
  /// Whether gradients of a backward wait for a step.
  bool is_waiting() const { return is_waiting_; }
  /// Whether all waiting gradients are zero or undefined. This is the effect of `zero_grad` of the module or of
  /// torch::optim::Optimizer, which no derived class can intercept.
  bool gradients_are_gone() const;
  /// Whether waiting gradients may be dropped. Not if weights were written in place since backward, as another
  /// optimizer would do. Once after each step it is allowed nevertheless: a program may bound its weights before
  /// zero_grad.
  bool allows_drop();
  /// Waiting gradients were dropped.
  void drop_gradients();
  /// The step was made; weights have their intended values.
  void start_over();
  /// The fused step itself has scaled the gradients.
  void take_gradients();

  /// Looks for writes now. Otherwise the first gradient of a backward does.
  void note_writes();
  /// Writes found since the step, by parameter.
  const std::vector<WeightWrite>& writes() const { return writes_; }
  bool any_writes() const;
  /// Accepts the present weights, whatever was written.
  void take_weights();

  /// What has happened to parameter `index` since then.
  FusedFault fault(std::size_t index) const;

 private:
  void forget_gradients();
  FusedFault weight_fault(std::size_t index) const;
  FusedFault gradient_fault(std::size_t index) const;

  std::vector<at::Tensor> parameters_;
  std::vector<TensorSample> weights_;
  std::vector<TensorSample> gradients_;
  std::vector<WeightWrite> writes_;
  std::uint64_t turn_ = 0;
  bool is_waiting_ = false;
  bool has_stepped_ = false;  // since the last drop of gradients whose weights had been written
};

}  // namespace lockstep
