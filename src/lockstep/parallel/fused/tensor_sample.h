#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace lockstep {

/// Where a tensor was and which version it had, to notice changes later. A version counter is not enough: LibTorch's
/// own SGD and clipping write through `data()`, which has another counter. The samples below also remember elements.
class TensorMark {
 public:
  void set(const at::Tensor& tensor);
  void reset() { data_ = nullptr; }
  bool is_set() const { return data_ != nullptr; }

  /// `tensor` still has the memory that it had then.
  bool is_in_place(const at::Tensor& tensor) const { return tensor.data_ptr() == data_; }
  /// Autograd has counted a write since.
  bool has_new_version(const at::Tensor& tensor) const { return new_versions(tensor) != 0; }
  std::uint32_t new_versions(const at::Tensor& tensor) const {
    return static_cast<std::uint32_t>(tensor._version()) - version_;
  }

 private:
  const void* data_ = nullptr;
  std::uint32_t version_ = 0;
};

/// Four elements of a weight, from the first to the last.
class WeightSample : public TensorMark {
 public:
  void take(const at::Tensor& weight);
  /// An element has other bits. Only for a weight that is in place.
  bool has_new_elements(const at::Tensor& weight) const;

 private:
  static constexpr std::size_t kElements = 4;

  std::size_t count_ = 0;
  std::array<std::uint64_t, kElements> bits_{};
};

/// How often a tensor was written, as far as looks show: what is written several times through `data()` between two
/// looks counts once, and not at all on a device.
class WriteCount {
 public:
  /// @return  the count, from the first look on
  std::uint64_t look(const at::Tensor& tensor);

 private:
  WeightSample seen_;
  std::uint64_t count_ = 0;
};

/// Sixteen elements of a gradient at equal distances. Only the largest is compared: scaling changes it unless it is
/// zero, and a clamp changes it before others.
class GradientSample : public TensorMark {
 public:
  /// @param turn  selects the sixteen
  void take(const at::Tensor& gradient, std::uint64_t turn);
  /// The largest element has other bits.
  bool has_new_elements(const at::Tensor& gradient) const;
  /// Autograd has counted a write since, and the largest element is zero.
  bool was_zeroed(const at::Tensor& gradient) const;
  /// The elements were cut to a bound: every changed element was larger and now has the bound of its sign, and all
  /// smaller ones are unchanged. False if it may have been a multiplication as well.
  bool was_clamped(const at::Tensor& gradient) const;

 private:
  static constexpr std::size_t kElements = 16;
  std::int64_t index_of(std::size_t element) const { return first_ + static_cast<std::int64_t>(element) * distance_; }

  std::int64_t first_ = 0;
  std::int64_t distance_ = 0;
  std::size_t count_ = 0;
  std::size_t largest_ = 0;
  std::array<std::uint64_t, kElements> bits_{};
};

}  // namespace lockstep
