#include "lockstep/parallel/fused_watch.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace lockstep {
namespace {

constexpr std::int64_t kLookedAt = 16;

std::uint64_t element_bits(const at::Tensor& tensor, std::int64_t index) {
  const std::size_t size = tensor.element_size();
  std::uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const char*>(tensor.data_ptr()) + static_cast<std::size_t>(index) * size, size);
  return bits;
}

// What a program has put in the place of a parameter may be anything.
bool can_be_read(const at::Tensor& tensor) { return tensor.device().is_cpu() && tensor.is_contiguous(); }

// Of a floating-point number, without its sign: compares as the magnitude does.
std::uint64_t magnitude_bits(const at::Tensor& tensor, std::int64_t index) {
  return element_bits(tensor, index) & ~(std::uint64_t{1} << (8 * tensor.element_size() - 1));
}

}  // namespace

void TensorSample::begin(const at::Tensor& tensor) {
  data_ = tensor.data_ptr();
  version_ = tensor._version();
  count_ = 0;
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
  const std::int64_t elements = std::min<std::int64_t>(kElements, tensor.numel());
  for (std::int64_t i = 0; i < elements; ++i) remember(tensor, elements == 1 ? 0 : last * i / (elements - 1));
}

void TensorSample::take_largest(const at::Tensor& tensor, std::uint64_t turn) {
  begin(tensor);
  const std::int64_t numel = tensor.numel();
  if (numel == 0 || !can_be_read(tensor)) return;
  const std::int64_t elements = std::min(kLookedAt, numel);
  const std::int64_t distance = numel / elements;
  const auto first = static_cast<std::int64_t>(turn % static_cast<std::uint64_t>(distance));
  std::int64_t largest = first;
  for (std::int64_t i = 1; i < elements; ++i) {
    const std::int64_t index = first + i * distance;
    if (magnitude_bits(tensor, index) > magnitude_bits(tensor, largest)) largest = index;
  }
  remember(tensor, largest);
}

bool TensorSample::has_new_elements(const at::Tensor& tensor) const {
  for (std::size_t i = 0; i < count_; ++i) {
    if (element_bits(tensor, indices_[i]) != bits_[i]) return true;
  }
  return false;
}

FusedWatch::FusedWatch(std::vector<at::Tensor> parameters)
    : parameters_(std::move(parameters)), weights_(parameters_.size()), gradients_(parameters_.size()) {
  take_weights();
}

void FusedWatch::gradient_arrived(std::size_t index) {
  const at::Tensor& gradient = parameters_[index].grad();
  if (!gradient.defined()) return;
  if (!is_waiting_) take_weights();  // they may have been written until now, whichever forward came before
  is_waiting_ = true;
  gradients_[index].take_largest(gradient, turn_);
}

void FusedWatch::start_over() {
  is_waiting_ = false;
  turn_ += 7919;  // a prime: other elements each time
  for (TensorSample& sample : gradients_) sample.reset();
  take_weights();
}

void FusedWatch::take_weights() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].defined()) weights_[i].take(parameters_[i]);
  }
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

FusedFault FusedWatch::fault(std::size_t index) const {
  if (!parameters_[index].defined()) return FusedFault::None;
  if (is_waiting_) {
    const FusedFault weight = weight_fault(index);
    if (weight != FusedFault::None) return weight;
  }
  const TensorSample& sample = gradients_[index];
  const at::Tensor& gradient = parameters_[index].grad();
  if (!sample.is_taken() || !gradient.defined() || gradient.layout() != at::kStrided) return FusedFault::None;
  if (!sample.is_in_place(gradient)) return FusedFault::None;  // another gradient, put there by the program
  // A write that autograd knows of is the program's own: it changes what this rank gives to the average.
  if (sample.has_new_version(gradient) || !sample.has_new_elements(gradient)) return FusedFault::None;
  return FusedFault::GradientChanged;
}

FusedFaultText describe_fault(FusedFault fault, const std::string& parameter) {
  const std::string name = "parameter \"" + parameter + "\"";
  switch (fault) {
    case FusedFault::GradientChanged:
      return {
          "the gradient of " + name +
              " was changed after backward as torch::nn::utils::clip_grad_norm_ and clip_grad_value_ do it: by what "
              "this rank computed, not by the average over the ranks, which only the step of a fused optimizer makes",
          "write lockstep::clip_grad_norm_(model->parameters(), max_norm), which clips by the norm of the average, "
          "or set StepOptions::max_norm; to clip by value, leave out fuse"};
    case FusedFault::WeightWritten:
      return {
          name + " was written between backward and the step of the fused optimizer",
          "call step() of the optimizer that fuse was given, and of no other over the same parameters; write weights "
          "by hand before backward, after step(), or after its zero_grad()"};
    case FusedFault::WeightMoved:
      return {name + " was moved to other memory between backward and the step of the fused optimizer",
              "load or replace weights before backward, after step(), or after the fused optimizer's zero_grad()"};
    case FusedFault::WeightConverted:
      return {name + " was moved to other memory after fuse, and is of another dtype, shape or device there",
              "convert the module before fuse, or call unfuse first; to load weights, load a file of the same dtype"};
    case FusedFault::None:
      break;
  }
  return {"another rank found " + name + " changed", "read the logs of the other ranks"};
}

}  // namespace lockstep
