#include "lockstep/parallel/fused/tensor_sample.h"

#include <algorithm>
#include <cstring>

namespace lockstep {
namespace {

// Reads single elements of a contiguous tensor on the CPU.
class Elements {
 public:
  explicit Elements(const at::Tensor& tensor)
      : data_(static_cast<const char*>(tensor.data_ptr())), size_(tensor.element_size()) {}

  std::uint64_t bits(std::int64_t index) const {
    const char* from = data_ + static_cast<std::size_t>(index) * size_;
    return size_ == sizeof(std::uint32_t)   ? load<std::uint32_t>(from)
           : size_ == sizeof(std::uint16_t) ? load<std::uint16_t>(from)
                                            : load<std::uint64_t>(from);
  }

 private:
  template <typename Word>
  static Word load(const char* from) {
    Word word;
    std::memcpy(&word, from, sizeof(word));
    return word;
  }

  const char* data_;
  std::size_t size_;
};

// A program may replace a parameter by any tensor.
bool can_be_read(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.is_contiguous() && c10::isFloatingType(tensor.scalar_type());
}

// The bits of a floating-point number without its sign; they compare as the magnitudes do.
std::uint64_t without_sign(std::uint64_t bits, std::size_t element_size) {
  return bits & ~(std::uint64_t{1} << (8 * element_size - 1));
}

// One element before and after a write. Bits of numbers with one sign compare as the numbers do.
struct ElementChange {
  bool is_negative;
  std::uint64_t before, now;  // without signs
};

// Element `i` of `count`, the first and the last among them.
std::int64_t spread(std::size_t i, std::size_t count, std::int64_t numel) {
  if (i + 1 == count) return numel - 1;
  return static_cast<std::int64_t>(i) * (numel / static_cast<std::int64_t>(count));
}

}  // namespace

void TensorMark::set(const at::Tensor& tensor) {
  data_ = tensor.data_ptr();
  version_ = tensor._version();
}

void WeightSample::take(const at::Tensor& weight) {
  set(weight);
  count_ = 0;
  if (!can_be_read(weight)) return;
  const Elements elements(weight);
  const std::int64_t numel = weight.numel();
  count_ = static_cast<std::size_t>(std::min<std::int64_t>(kElements, numel));
  for (std::size_t i = 0; i < count_; ++i) bits_[i] = elements.bits(spread(i, count_, numel));
}

bool WeightSample::has_new_elements(const at::Tensor& weight) const {
  const Elements elements(weight);
  const std::int64_t numel = weight.numel();
  for (std::size_t i = 0; i < count_; ++i) {
    if (elements.bits(spread(i, count_, numel)) != bits_[i]) return true;
  }
  return false;
}

std::uint64_t WriteCount::look(const at::Tensor& tensor) {
  const bool has_memory = tensor.has_storage() && tensor.numel() > 0 && tensor.storage().data() != nullptr;
  if (tensor.is_inference() || !has_memory) return count_;
  if (seen_.is_set() && seen_.has_new_version(tensor)) {
    count_ += seen_.new_versions(tensor);
  } else if (seen_.is_set() && can_be_read(tensor) && seen_.has_new_elements(tensor)) {
    ++count_;
  }
  seen_.take(tensor);
  return count_;
}

void GradientSample::take(const at::Tensor& gradient, std::uint64_t turn) {
  set(gradient);
  count_ = largest_ = 0;
  const std::int64_t numel = gradient.numel();
  if (numel == 0 || !can_be_read(gradient)) return;
  const Elements elements(gradient);
  const std::size_t size = gradient.element_size();
  count_ = static_cast<std::size_t>(std::min<std::int64_t>(kElements, numel));
  distance_ = numel / static_cast<std::int64_t>(count_);
  first_ = static_cast<std::int64_t>(turn % static_cast<std::uint64_t>(distance_));
  std::uint64_t largest = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    bits_[i] = elements.bits(index_of(i));
    const std::uint64_t magnitude = without_sign(bits_[i], size);
    if (magnitude <= largest) continue;
    largest = magnitude;
    largest_ = i;
  }
}

bool GradientSample::has_new_elements(const at::Tensor& gradient) const {
  return count_ != 0 && Elements(gradient).bits(index_of(largest_)) != bits_[largest_];
}

bool GradientSample::was_zeroed(const at::Tensor& gradient) const {
  if (!is_in_place(gradient) || !has_new_version(gradient)) return false;
  return count_ == 0 || without_sign(Elements(gradient).bits(index_of(largest_)), gradient.element_size()) == 0;
}

bool GradientSample::was_clamped(const at::Tensor& gradient) const {
  const Elements elements(gradient);
  const std::size_t size = gradient.element_size();
  std::array<std::uint64_t, 2> bounds{};  // of positive and of negative numbers; 0: not found
  std::array<std::uint64_t, 2> largest_kept{}, first_before{};
  bool several_became_one = false;
  for (std::size_t i = 0; i < count_; ++i) {
    const std::uint64_t now = elements.bits(index_of(i));
    const ElementChange change{without_sign(bits_[i], size) != bits_[i], without_sign(bits_[i], size),
                               without_sign(now, size)};
    const std::size_t sign = change.is_negative ? 1 : 0;
    if (now == bits_[i]) {
      largest_kept[sign] = std::max(largest_kept[sign], change.before);
      continue;
    }
    const bool has_other_sign = (change.now != now) != change.is_negative;
    if (has_other_sign || change.now == 0 || change.now > change.before) return false;
    if (bounds[sign] != 0 && bounds[sign] != change.now) return false;
    several_became_one = several_became_one || (bounds[sign] != 0 && first_before[sign] != change.before);
    bounds[sign] = change.now;
    first_before[sign] = change.before;
  }
  bool any_cut = false;
  for (const std::size_t sign : {0, 1}) {
    any_cut = any_cut || bounds[sign] != 0;
    if (bounds[sign] != 0 && largest_kept[sign] > bounds[sign]) return false;
  }
  return any_cut && (several_became_one || largest_kept[0] != 0 || largest_kept[1] != 0);
}

}  // namespace lockstep
