#include "lockstep/parallel/fused/gradients/stand_ins.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace lockstep {
namespace {

double largest_number(at::ScalarType dtype) {
  return dtype == at::ScalarType::Double ? std::numeric_limits<double>::max()
                                         : static_cast<double>(std::numeric_limits<float>::max());
}

double value_of(const at::Tensor& element) {
  return element.scalar_type() == at::ScalarType::Double ? *element.data_ptr<double>()
                                                         : static_cast<double>(*element.data_ptr<float>());
}

void set_value(const at::Tensor& element, double value) {
  if (element.scalar_type() == at::ScalarType::Double) {
    *element.data_ptr<double>() = value;
  } else {
    *element.data_ptr<float>() = static_cast<float>(value);
  }
}

// No view, because LibTorch's zero_grad detaches gradients in place, which views do not allow.
at::Tensor spread_element(const at::Tensor& element, const at::Tensor& parameter) {
  const std::vector<std::int64_t> strides(static_cast<std::size_t>(parameter.dim()), 0);
  return at::from_blob(
      element.data_ptr(), parameter.sizes(), strides, [element](void*) {}, element.options());
}

}  // namespace

StandIns::StandIns(std::vector<at::Tensor> parameters)
    : parameters_(std::move(parameters)), entries_(parameters_.size()) {}

bool StandIns::is_shown(const Entry& entry, const at::Tensor& grad) const {
  return entry.element.defined() && grad.defined() && grad.layout() == at::kStrided &&
         grad.scalar_type() == entry.element.scalar_type() && grad.storage().data() == entry.element.data_ptr();
}

StandIns::State StandIns::state(std::size_t index) const {
  const at::Tensor& grad = parameters_[index].grad();
  if (!grad.defined()) return State::Gone;
  const Entry& entry = entries_[index];
  if (!is_shown(entry, grad)) return State::Other;
  if (grad.numel() == 0) return entry.means == Means::Sum ? State::Intact : State::Zeroed;
  const double value = value_of(entry.element);
  const bool is_written = static_cast<std::uint64_t>(grad._version()) != entry.version;
  if (entry.means == Means::Zeros) return value == 0 ? State::Zeroed : State::Written;
  if (grad.numel() == 1) {
    if (is_written) return value == 0 ? State::Zeroed : State::Written;
    return value == largest_number(grad.scalar_type()) ? State::Intact : State::Written;
  }
  return std::isnan(value) ? State::Intact : value == 0 ? State::Zeroed : State::Written;
}

bool StandIns::any_sum() const {
  return std::any_of(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.means == Means::Sum; });
}

void StandIns::show(std::size_t index, Means means) {
  at::Tensor& parameter = parameters_[index];
  Entry& entry = entries_[index];
  entry.means = means;
  if (means == Means::Nothing || (parameter.grad().defined() && !is_shown(entry, parameter.grad()))) return;
  entry.element = at::empty({1}, parameter.options().requires_grad(false));
  const bool is_sum = means == Means::Sum;
  set_value(entry.element, !is_sum                  ? 0
                           : parameter.numel() == 1 ? largest_number(parameter.scalar_type())
                                                    : std::numeric_limits<double>::quiet_NaN());
  const at::Tensor tensor = spread_element(entry.element, parameter);
  entry.version = static_cast<std::uint64_t>(tensor._version());
  parameter.mutable_grad() = tensor;
}

void StandIns::take_off(std::size_t index) {
  at::Tensor& grad = parameters_[index].mutable_grad();
  if (is_shown(entries_[index], grad)) grad.reset();
}

}  // namespace lockstep
