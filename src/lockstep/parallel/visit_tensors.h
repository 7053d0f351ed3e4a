#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace lockstep {
namespace detail {

template <typename T, typename = void>
struct IsRange : std::false_type {};
template <typename T>
struct IsRange<T, std::void_t<decltype(std::declval<const T&>().begin() != std::declval<const T&>().end())>>
    : std::true_type {};

// std::optional, and LibTorch's own, which is the same in LibTorch 2.
template <typename T, typename = void>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<T, std::void_t<decltype(std::declval<const T&>().has_value()), typename T::value_type>>
    : std::true_type {};

template <typename T, typename = void>
struct IsTuple : std::false_type {};
template <typename T>
struct IsTuple<T, std::void_t<decltype(std::tuple_size<T>::value)>> : std::true_type {};

}  // namespace detail

/// Calls `visit` with each tensor inside `value`: a tensor; a tuple, pair, optional or container of such; a map's
/// values; a TorchScript value. Anything else must be a struct with a member `template <typename F> void
/// visit_tensors(F&&) const`; numbers and texts hold no tensors.
template <typename T, typename Visit>
void visit_tensors(const T& value, Visit&& visit) {
  if constexpr (std::is_convertible_v<const T&, const at::Tensor&>) {
    visit(value);
  } else if constexpr (std::is_same_v<T, c10::IValue>) {
    value.visit([&](const c10::IValue& inner) {
      if (inner.isTensor()) visit(inner.toTensor());
      return false;  // go on into containers
    });
  } else if constexpr (detail::IsOptional<T>::value) {
    if (value.has_value()) visit_tensors(*value, visit);
  } else if constexpr (detail::IsTuple<T>::value) {
    std::apply([&](const auto&... parts) { (visit_tensors(parts, visit), ...); }, value);
  } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_convertible_v<const T&, std::string>) {
    // nothing
  } else if constexpr (detail::IsRange<T>::value) {
    for (const auto& element : value) visit_tensors(element, visit);
  } else {
    value.visit_tensors(visit);
  }
}

}  // namespace lockstep
