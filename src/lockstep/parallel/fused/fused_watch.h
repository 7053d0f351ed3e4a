#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep {

/// A few elements of a tensor, to see whether it was written since. A version counter alone does not show it:
/// LibTorch's own SGD and clipping write through `data()`, which has a counter of its own.
class TensorSample {
 public:
  /// Remembers four elements at even distances.
  void take(const at::Tensor& tensor);
  /// Remembers sixteen elements, the largest of them first, and compares that one alone: scaling changes it unless it
  /// is zero, and a clamp changes it before others. @param turn  which sixteen
  void take_largest(const at::Tensor& tensor, std::uint64_t turn);
  void reset() { data_ = nullptr; }
  bool is_taken() const { return data_ != nullptr; }

  /// `tensor` lies where it lay.
  bool is_in_place(const at::Tensor& tensor) const { return tensor.data_ptr() == data_; }
  /// Autograd knows of a write since.
  bool has_new_version(const at::Tensor& tensor) const { return tensor._version() != version_; }
  /// An element that is compared has other bits.
  bool has_new_elements(const at::Tensor& tensor) const;
  /// Autograd knows of a write since, and the first element that is remembered is zero.
  bool was_zeroed(const at::Tensor& tensor) const;
  /// Elements that are remembered were cut to a bound: what changed was larger, is the same number for all of a sign
  /// now, and whatever is smaller was left alone. False where it may have been a multiplication as well.
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

/// What is wrong with a parameter of a fused optimizer. Values travel between ranks; the largest wins.
enum class FusedFault : std::uint8_t {
  None = 0,
  GradientChanged = 1,  ///< since backward, past autograd, as LibTorch's clipping does, or by a clamp
  WeightWritten = 2,    ///< since backward, by something else than the fused step
  WeightMoved = 3,      ///< to other memory, since backward
  WeightConverted = 4,  ///< to another dtype, shape or device
};

/// How weights were written between two steps, while none of their gradients waited.
enum class WeightWrite : std::uint8_t {
  None = 0,
  Seen = 1,   ///< elements are others: by another rank, where weights are shared, or past autograd (`data()`)
  Known = 2,  ///< autograd knows of a write on this rank
};

/// Notices what was written to weights and gradients of a fused optimizer that its step does not know of: another
/// optimizer that steps over the same weights, and clipping that takes this rank's gradients for the average.
///
/// Weights may be written as long as no gradient of theirs waits for its step: before backward, after the step, or
/// after `zero_grad`. Between backward and step something else is taking the step's place. What was written is noted,
/// because replicas part where ranks write different values.
///
/// Reads a few elements of each parameter, never all.
class FusedWatch {
 public:
  /// @param parameters  in the order of the indices below; undefined ones are not watched
  explicit FusedWatch(std::vector<at::Tensor> parameters);

  /// Backward has added to the gradient of parameter `index`.
  void gradient_arrived(std::size_t index);
  /// Gradients wait for a step: those of a backward that no step has used.
  bool is_waiting() const { return is_waiting_; }
  /// Something has left zeros or nothing in all gradients that wait: `zero_grad` of the module, or of
  /// torch::optim::Optimizer, which no class that is derived from it can see.
  bool gradients_are_gone() const;
  /// Whether gradients that wait may be dropped. Not where weights were written in place meanwhile, as if by another
  /// optimizer; but once after each step they may: so it is where a program bounds its weights before zero_grad.
  bool allows_drop();
  /// They were dropped.
  void drop_gradients();
  /// The step was made; weights are as they should be.
  void start_over();
  /// The fused step itself has scaled the gradients.
  void take_gradients();

  /// Looks for writes now. Without a call the first gradient of a backward does so.
  void note_writes();
  /// Those found since the step, by parameter.
  const std::vector<WeightWrite>& writes() const { return writes_; }
  bool any_writes() const;
  /// Weights are as they should be, whatever was written.
  void take_weights();

  /// What has happened to parameter `index` since.
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
  bool has_stepped_ = false;  // since weights were last written while gradients waited that were dropped then
};

/// An Error that every rank throws at the same place: nobody waits for this one.
class AgreedError : public Error {
 public:
  using Error::Error;
};

/// What happened, and what to write instead.
struct FusedFaultText {
  std::string happened;
  std::string fix;
};
FusedFaultText describe_fault(FusedFault fault, const std::string& parameter);

}  // namespace lockstep
