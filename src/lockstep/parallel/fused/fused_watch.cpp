#include "lockstep/parallel/fused/fused_watch.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace lockstep {
namespace {

constexpr std::int64_t kWeightElements = 4;

std::uint64_t element_bits(const at::Tensor& tensor, std::int64_t index) {
  const std::size_t size = tensor.element_size();
  std::uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const char*>(tensor.data_ptr()) + static_cast<std::size_t>(index) * size, size);
  return bits;
}

// A program may replace a parameter by any tensor.
bool can_be_read(const at::Tensor& tensor) { return tensor.device().is_cpu() && tensor.is_contiguous(); }

// The bits of a floating-point number without its sign; they compare as the magnitudes do.
std::uint64_t without_sign(std::uint64_t bits, std::size_t element_size) {
  return bits & ~(std::uint64_t{1} << (8 * element_size - 1));
}

// One element before and after a write. Bits of numbers with one sign compare as the numbers do.
struct ElementChange {
  bool is_negative;
  std::uint64_t before, now;  // without signs
};

}  // namespace

void TensorSample::begin(const at::Tensor& tensor) {
  data_ = tensor.data_ptr();
  version_ = tensor._version();
  count_ = compared_ = 0;
}

void TensorSample::remember(const at::Tensor& tensor, std::int64_t index) {
  indices_[count_] = index;
  bits_[count_] = element_bits(tensor, index);
  ++count_;
}

void TensorSample::take(const at::Tensor& tensor) {
  begin(tensor);
  if (!can_be_read(tensor)) return;
  const std::int64_t last = tensor.numel() - 1;
  const std::int64_t elements = std::min(kWeightElements, tensor.numel());
  for (std::int64_t i = 0; i < elements; ++i) remember(tensor, elements == 1 ? 0 : last * i / (elements - 1));
  compared_ = count_;
}

void TensorSample::take_largest(const at::Tensor& tensor, std::uint64_t turn) {
  begin(tensor);
  const std::int64_t numel = tensor.numel();
  if (numel == 0 || !can_be_read(tensor)) return;
  const std::int64_t elements = std::min<std::int64_t>(kElements, numel);
  const std::int64_t distance = numel / elements;
  const auto first = static_cast<std::int64_t>(turn % static_cast<std::uint64_t>(distance));
  std::size_t largest = 0;
  for (std::int64_t i = 0; i < elements; ++i) {
    remember(tensor, first + i * distance);
    const auto magnitude = [&](std::size_t at) { return without_sign(bits_[at], tensor.element_size()); };
    if (magnitude(count_ - 1) > magnitude(largest)) largest = count_ - 1;
  }
  std::swap(indices_[0], indices_[largest]);
  std::swap(bits_[0], bits_[largest]);
  compared_ = 1;
}

bool TensorSample::has_new_elements(const at::Tensor& tensor) const {
  for (std::size_t i = 0; i < compared_; ++i) {
    if (element_bits(tensor, indices_[i]) != bits_[i]) return true;
  }
  return false;
}

bool TensorSample::was_zeroed(const at::Tensor& tensor) const {
  if (!is_in_place(tensor) || !has_new_version(tensor)) return false;
  return count_ == 0 || without_sign(element_bits(tensor, indices_[0]), tensor.element_size()) == 0;
}

bool TensorSample::was_clamped(const at::Tensor& tensor) const {
  const std::size_t size = tensor.element_size();
  std::array<std::uint64_t, 2> bounds{};  // of positive and of negative numbers; 0: not found
  std::array<std::uint64_t, 2> largest_kept{}, first_before{};
  bool several_became_one = false;
  for (std::size_t i = 0; i < count_; ++i) {
    const std::uint64_t now = element_bits(tensor, indices_[i]);
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

FusedWatch::FusedWatch(std::vector<at::Tensor> parameters)
    : parameters_(std::move(parameters)),
      weights_(parameters_.size()),
      gradients_(parameters_.size()),
      writes_(parameters_.size(), WeightWrite::None) {
  take_weights();
}

void FusedWatch::gradient_arrived(std::size_t index) {
  const at::Tensor& gradient = parameters_[index].grad();
  if (!gradient.defined()) return;
  if (!is_waiting_) note_writes();  // writes are permitted until this moment, also after an earlier forward
  is_waiting_ = true;
  gradients_[index].take_largest(gradient, turn_);
}

bool FusedWatch::gradients_are_gone() const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!gradients_[i].is_taken()) continue;
    const at::Tensor& gradient = parameters_[i].grad();
    if (gradient.defined() && !gradients_[i].was_zeroed(gradient)) return false;
  }
  return true;
}

bool FusedWatch::allows_drop() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].defined() && weight_fault(i) == FusedFault::WeightWritten) {
      return std::exchange(has_stepped_, false);
    }
  }
  return true;
}

void FusedWatch::forget_gradients() {
  is_waiting_ = false;
  turn_ += 7919;  // a prime: selects other elements each time
  for (TensorSample& sample : gradients_) sample.reset();
}

void FusedWatch::drop_gradients() {
  forget_gradients();
  note_writes();
}

void FusedWatch::start_over() {
  forget_gradients();
  take_weights();
  has_stepped_ = true;
}

void FusedWatch::note_writes() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i];
    if (!parameter.defined()) continue;
    TensorSample& sample = weights_[i];
    if (sample.is_in_place(parameter)) {
      if (sample.has_new_version(parameter)) {
        writes_[i] = WeightWrite::Known;
      } else if (sample.has_new_elements(parameter)) {
        writes_[i] = std::max(writes_[i], WeightWrite::Seen);
      }
    }
    sample.take(parameter);
  }
}

bool FusedWatch::any_writes() const {
  return std::any_of(writes_.begin(), writes_.end(), [](WeightWrite write) { return write != WeightWrite::None; });
}

void FusedWatch::take_weights() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].defined()) weights_[i].take(parameters_[i]);
  }
  std::fill(writes_.begin(), writes_.end(), WeightWrite::None);
}

void FusedWatch::take_gradients() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (gradients_[i].is_taken()) gradient_arrived(i);
  }
}

FusedFault FusedWatch::weight_fault(std::size_t index) const {
  const at::Tensor& parameter = parameters_[index];
  const TensorSample& sample = weights_[index];
  if (!sample.is_in_place(parameter)) return FusedFault::WeightMoved;
  const bool is_written = sample.has_new_version(parameter) || sample.has_new_elements(parameter);
  return is_written ? FusedFault::WeightWritten : FusedFault::None;
}

FusedFault FusedWatch::gradient_fault(std::size_t index) const {
  const TensorSample& sample = gradients_[index];
  const at::Tensor& gradient = parameters_[index].grad();
  if (!sample.is_taken() || !gradient.defined() || gradient.layout() != at::kStrided) return FusedFault::None;
  if (!sample.is_in_place(gradient)) return FusedFault::None;  // the program put another gradient there
  // A write that autograd has counted is the program's own: it changes this rank's contribution to the average. That is
  // correct for sums and products, but the average of clamped gradients is not the clamped average.
  const bool is_wrong =
      sample.has_new_version(gradient) ? sample.was_clamped(gradient) : sample.has_new_elements(gradient);
  return is_wrong ? FusedFault::GradientChanged : FusedFault::None;
}

FusedFault FusedWatch::fault(std::size_t index) const {
  if (!parameters_[index].defined()) return FusedFault::None;
  const FusedFault weight = is_waiting_ ? weight_fault(index) : FusedFault::None;
  return weight != FusedFault::None ? weight : gradient_fault(index);
}

}  // namespace lockstep
