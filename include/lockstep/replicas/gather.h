#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <iterator>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/detail/tensor/map_tensors.h"
#include "lockstep/replicas/replica_device.h"

namespace lockstep {

/// Concatenates the replicas' outputs along `dim` on `device`. Scalars, such as losses, become a vector with one
/// element per replica. Differentiable. As `torch.nn.parallel.gather`, but on CPUs, too.
/// @throws Error  without outputs, or if they do not fit together
at::Tensor gather_tensors(const std::vector<at::Tensor>& outputs, const ReplicaDevice& device, std::int64_t dim = 0);

namespace detail {

/// [replica][tensor] to [tensor]. @throws Error  if replicas have different numbers of tensors
std::vector<at::Tensor> gather_all(const std::vector<std::vector<at::Tensor>>& outputs, const ReplicaDevice& device,
                                   std::int64_t dim);
[[noreturn]] void refuse_unlike_keys(std::size_t replica);
[[noreturn]] void refuse_unlike_sizes(std::size_t replica, std::size_t size, std::size_t first);
void append_script_tensors(const c10::IValue& first, const c10::IValue& other, std::size_t replica,
                           std::vector<at::Tensor>& tensors);

// Whether T is a map with one value for each key, ordered or not.
template <typename T, typename = void>
struct IsMap : std::false_type {};
template <typename T>
struct IsMap<T, std::void_t<typename T::mapped_type,
                            decltype(std::declval<const T&>().at(std::declval<const typename T::key_type&>()))>>
    : std::true_type {};

template <typename T>
void append_tensors(const T& first, const T& other, std::size_t replica, std::vector<at::Tensor>& tensors);

template <typename T, std::size_t... i>
void append_parts(const T& first, const T& other, std::size_t replica, std::vector<at::Tensor>& tensors,
                  std::index_sequence<i...>) {
  (append_tensors(std::get<i>(first), std::get<i>(other), replica, tensors), ...);
}

// Appends the tensors of `other` in the order of the tensors in `first`; a map's tensors are matched by key.
template <typename T>
void append_tensors(const T& first, const T& other, std::size_t replica, std::vector<at::Tensor>& tensors) {
  if constexpr (std::is_same_v<T, c10::IValue>) {
    append_script_tensors(first, other, replica, tensors);
  } else if constexpr (std::is_convertible_v<const T&, const at::Tensor&>) {
    tensors.push_back(other);
  } else if constexpr (IsOptional<T>::value) {
    if (first.has_value() != other.has_value()) refuse_unlike_sizes(replica, other.has_value(), first.has_value());
    if (first.has_value()) append_tensors(*first, *other, replica, tensors);
  } else if constexpr (IsTuple<T>::value) {
    append_parts(first, other, replica, tensors, std::make_index_sequence<std::tuple_size_v<T>>());
  } else if constexpr (kHoldsNoTensor<T>) {
    // nothing
  } else if constexpr (IsMap<T>::value) {
    if (first.size() != other.size()) refuse_unlike_keys(replica);
    for (const auto& [key, value] : first) {
      const auto found = other.find(key);
      if (found == other.end()) refuse_unlike_keys(replica);
      append_tensors(value, found->second, replica, tensors);
    }
  } else if constexpr (IsRange<T>::value) {
    const auto length = [](const T& range) {
      return static_cast<std::size_t>(std::distance(range.begin(), range.end()));
    };
    if (length(first) != length(other)) refuse_unlike_sizes(replica, length(other), length(first));
    auto a = first.begin();
    for (auto b = other.begin(); b != other.end(); ++a, ++b) {
      const typename T::value_type& left = *a;
      const typename T::value_type& right = *b;
      append_tensors(left, right, replica, tensors);
    }
  } else {
    visit_tensors(other, [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
  }
}

}  // namespace detail

/// Joins values of one type, tensor by tensor, of the types that DataParallel takes; in maps, the tensors of each key.
/// Everything that is not a tensor is replica 0's.
/// @throws Error  as gather_tensors, or if maps have different keys or lists different lengths
template <typename T>
T gather(const std::vector<T>& outputs, const ReplicaDevice& device, std::int64_t dim = 0) {
  std::vector<std::vector<at::Tensor>> tensors;
  for (const T& output : outputs) {
    std::vector<at::Tensor> parts;
    detail::append_tensors(outputs.front(), output, tensors.size(), parts);
    tensors.push_back(std::move(parts));
  }
  const std::vector<at::Tensor> gathered = detail::gather_all(tensors, device, dim);
  return with_tensors(outputs.front(), gathered);
}

}  // namespace lockstep
