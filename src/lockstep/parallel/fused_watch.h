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
  /// Remembers elements at even distances.
  void take(const at::Tensor& tensor);
  /// Remembers the largest of sixteen elements at most: scaling changes it unless it is zero, and a clamp changes it
  /// before others. @param turn  which sixteen
  void take_largest(const at::Tensor& tensor, std::uint64_t turn);
  void reset() { data_ = nullptr; }
  bool is_taken() const { return data_ != nullptr; }

  /// `tensor` lies where it lay.
  bool is_in_place(const at::Tensor& tensor) const { return tensor.data_ptr() == data_; }
  /// Autograd knows of a write since.
  bool has_new_version(const at::Tensor& tensor) const { return tensor._version() != version_; }
  /// An element that is remembered has other bits.
  bool has_new_elements(const at::Tensor& tensor) const;

 private:
  static constexpr std::size_t kElements = 4;
  void begin(const at::Tensor& tensor);
  void remember(const at::Tensor& tensor, std::int64_t index);

  const void* data_ = nullptr;
  std::uint32_t version_ = 0;
  std::size_t count_ = 0;
  std::array<std::int64_t, kElements> indices_{};
  std::array<std::uint64_t, kElements> bits_{};
};

/// What is wrong with a parameter of a fused optimizer. Values travel between ranks; the largest wins.
enum class FusedFault : std::uint8_t {
  None = 0,
  GradientChanged = 1,  ///< since backward, past autograd, as LibTorch's clipping does
  WeightWritten = 2,    ///< since backward, by something else than the fused step
  WeightMoved = 3,      ///< to other memory, since backward
  WeightConverted = 4,  ///< to another dtype, shape or device
};

/// Notices what was written to weights and gradients of a fused optimizer that its step does not know of: another
/// optimizer that steps over the same weights, and clipping that takes this rank's gradients for the average.
///
/// Weights may be written as long as no gradient of theirs waits for its step: before backward, after the step, or
/// after `zero_grad`. Between backward and step something else is taking the step's place.
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
  /// The step was made, or its gradients dropped; weights are as they should be.
  void start_over();
  /// Weights are as they should be.
  void take_weights();
  /// The fused step itself has scaled the gradients.
  void take_gradients();

  /// What has happened to parameter `index` since.
  FusedFault fault(std::size_t index) const;

 private:
  FusedFault weight_fault(std::size_t index) const;

  std::vector<at::Tensor> parameters_;
  std::vector<TensorSample> weights_;
  std::vector<TensorSample> gradients_;
  std::uint64_t turn_ = 0;
  bool is_waiting_ = false;
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
