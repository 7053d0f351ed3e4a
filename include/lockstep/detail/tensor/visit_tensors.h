#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

namespace torch {
namespace data {
template <typename Data, typename Target>
struct Example;
}
}  // namespace torch

namespace lockstep {
namespace detail {

template <typename T, typename = void>
struct IsRange : std::false_type {};
template <typename T>
struct IsRange<T, std::void_t<decltype(std::declval<const T&>().begin() != std::declval<const T&>().end())>>
    : std::true_type {};

// std::optional, and LibTorch's own optional, which is std::optional in LibTorch 2.
template <typename T, typename = void>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<T, std::void_t<decltype(std::declval<const T&>().has_value()), typename T::value_type>>
    : std::true_type {};

template <typename T, typename = void>
struct IsTuple : std::false_type {};
template <typename T>
struct IsTuple<T, std::void_t<decltype(std::tuple_size<T>::value)>> : std::true_type {};

// Whether a visitor skips values of a type, which it declares by `template <typename T> static constexpr bool
// kPassesBy`.
template <typename Visit, typename T, typename = void>
struct PassesBy : std::false_type {};
template <typename Visit, typename T>
struct PassesBy<Visit, T, std::enable_if_t<std::decay_t<Visit>::template kPassesBy<T>>> : std::true_type {};

// Finds a user's function beside the type that it is for.
namespace found_by_argument {

void visit_tensors();  // so that an unqualified call looks in the namespaces of its arguments

template <typename T, typename Visit>
auto call(const T& value, Visit&& visit) -> decltype(visit_tensors(value, visit)) {
  return visit_tensors(value, visit);
}
template <typename T, typename = void>
struct Exists : std::false_type {};
template <typename T>
struct Exists<
    T, std::void_t<decltype(visit_tensors(std::declval<const T&>(), std::declval<void (&)(const at::Tensor&)>()))>>
    : std::true_type {};

}  // namespace found_by_argument

template <typename T, typename = void>
struct HasVisitMember : std::false_type {};
template <typename T>
struct HasVisitMember<
    T, std::void_t<decltype(std::declval<const T&>().visit_tensors(std::declval<void (&)(const at::Tensor&)>()))>>
    : std::true_type {};

// torch::data's pairs: Target may be NoTarget, which has no tensor.
template <typename T>
struct IsExample : std::false_type {};
template <typename Data, typename Target>
struct IsExample<torch::data::Example<Data, Target>> : std::true_type {};
template <typename T, typename = void>
struct HasTarget : std::false_type {};
template <typename T>
struct HasTarget<T, std::void_t<decltype(std::declval<const T&>().target)>> : std::true_type {};

template <typename T>
constexpr bool kHoldsNoTensor =
    std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_convertible_v<const T&, std::string>;

// A struct's tensors, through its own member or through a function in its namespace.
template <typename T, typename Visit>
void visit_struct(const T& value, Visit&& visit) {
  if constexpr (HasVisitMember<T>::value) {
    value.visit_tensors(visit);
  } else if constexpr (found_by_argument::Exists<T>::value) {
    found_by_argument::call(value, visit);
  } else {
    static_assert(HasVisitMember<T>::value,
                  "it is not known which tensors this type holds: give it a member `template <typename F> void "
                  "visit_tensors(F&& visit) const` that calls visit(tensor) for each, or, if the type is not yours, "
                  "write `template <typename F> void visit_tensors(const Type& value, F&& visit)` in its namespace");
  }
}

struct VisitTensors {
  template <typename T, typename Visit>
  void operator()(const T& value, Visit&& visit) const {
    if constexpr (PassesBy<Visit, T>::value) {
      // nothing
    } else if constexpr (std::is_convertible_v<const T&, const at::Tensor&>) {
      visit(value);
    } else if constexpr (std::is_same_v<T, c10::IValue>) {
      value.visit([&](const c10::IValue& inner) {
        if (inner.isTensor()) visit(inner.toTensor());
        return false;  // continue into containers
      });
    } else if constexpr (IsOptional<T>::value) {
      if (value.has_value()) (*this)(*value, visit);
    } else if constexpr (IsTuple<T>::value) {
      std::apply([&](const auto&... parts) { ((*this)(parts, visit), ...); }, value);
    } else if constexpr (kHoldsNoTensor<T>) {
      // nothing
    } else if constexpr (IsRange<T>::value) {
      for (const auto& element : value) (*this)(element, visit);
    } else if constexpr (IsExample<T>::value) {
      (*this)(value.data, visit);
      if constexpr (HasTarget<T>::value) (*this)(value.target, visit);
    } else {
      visit_struct(value, visit);
    }
  }
};

}  // namespace detail

/// visit_tensors(value, visit) calls `visit` with each tensor inside `value`: a tensor; a tuple, pair, optional or
/// container of values that hold tensors; a map's values; a torch::data::Example; a TorchScript value. Numbers and
/// texts hold no tensors. Any other struct declares its tensors by a member
///
///     template <typename F> void visit_tensors(F&& visit) const { visit(logits); visit(hidden); }
///
/// or, if you cannot change the struct, by a function in its namespace, which is found by its argument:
///
///     template <typename F> void visit_tensors(const VAEOutput& output, F&& visit) { visit(output.reconstruction); }
///
/// They must show the members themselves, not copies: the tensors are replaced when replicas' outputs are combined.
inline constexpr detail::VisitTensors visit_tensors{};

}  // namespace lockstep
