#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/detail/tensor/visit_tensors.h"

namespace lockstep {

/// The tensors inside `value`, in the order in which `visit_tensors` finds them.
template <typename T>
std::vector<at::Tensor> tensors_of(const T& value) {
  std::vector<at::Tensor> tensors;
  visit_tensors(value, [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
  return tensors;
}

/// `value`, a TorchScript value, with its tensors replaced by `tensors`, in the order of `visit_tensors`.
c10::IValue replace_script_tensors(const c10::IValue& value, const std::vector<at::Tensor>& tensors);

namespace detail {

template <typename T>
void replace_from(T& value, const std::vector<at::Tensor>& tensors, std::size_t& position) {
  if constexpr (std::is_convertible_v<const T&, const at::Tensor&>) {
    value = tensors[position++];
  } else if constexpr (std::is_same_v<T, c10::IValue>) {
    std::size_t count = 0;
    lockstep::visit_tensors(value, [&](const at::Tensor&) { ++count; });
    const auto begin = tensors.begin() + static_cast<std::ptrdiff_t>(position);
    value = replace_script_tensors(value, {begin, begin + static_cast<std::ptrdiff_t>(count)});
    position += count;
  } else if constexpr (IsOptional<T>::value) {
    if (value.has_value()) replace_from(*value, tensors, position);
  } else if constexpr (IsTuple<T>::value) {
    std::apply([&](auto&... parts) { (replace_from(parts, tensors, position), ...); }, value);
  } else if constexpr (kHoldsNoTensor<T>) {
    // nothing
  } else if constexpr (IsRange<T>::value) {
    if constexpr (!std::is_same_v<T, std::vector<bool>>) {
      for (auto& element : value) replace_from(element, tensors, position);
    }
  } else if constexpr (IsExample<T>::value) {
    replace_from(value.data, tensors, position);
    if constexpr (HasTarget<T>::value) replace_from(value.target, tensors, position);
  } else {
    // The object is our own and not const, and `visit_struct` shows its members.
    visit_struct(value, [&](const at::Tensor& tensor) { const_cast<at::Tensor&>(tensor) = tensors[position++]; });
  }
}

}  // namespace detail

/// `value` with its tensors replaced by `tensors`, in the order of `visit_tensors`.
/// @param tensors  as many as `value` has
template <typename T>
T with_tensors(T value, const std::vector<at::Tensor>& tensors) {
  std::size_t position = 0;
  detail::replace_from(value, tensors, position);
  return value;
}

}  // namespace lockstep
