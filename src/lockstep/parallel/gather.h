#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/parallel/map_tensors.h"
#include "lockstep/parallel/replica_device.h"

namespace lockstep {

/// Puts the replicas' outputs together along `dim` on `device`; scalars become a vector with one element per replica,
/// as losses do. Differentiable. As `torch.nn.parallel.gather`, on CPUs too.
/// @throws Error  without outputs, or where they do not fit together
at::Tensor gather_tensors(const std::vector<at::Tensor>& outputs, const ReplicaDevice& device, std::int64_t dim = 0);

namespace detail {

/// [replica][tensor] to [tensor]. @throws Error  where replicas have different numbers of tensors
std::vector<at::Tensor> gather_all(const std::vector<std::vector<at::Tensor>>& outputs, const ReplicaDevice& device,
                                   std::int64_t dim);
[[noreturn]] void refuse_unlike_maps(std::size_t replica);

// An element of a map whose keys are texts.
template <typename T>
struct IsNamed : std::false_type {};
template <typename Key, typename Value>
struct IsNamed<std::pair<Key, Value>> : std::is_convertible<const Key&, std::string> {};

// Two maps with as many, but other keys would be put together by position.
template <typename T>
void check_alike(const T& first, const T& other, std::size_t replica) {
  if constexpr (std::is_convertible_v<const T&, const at::Tensor&> || std::is_convertible_v<const T&, std::string>) {
    // nothing inside
  } else if constexpr (IsRange<T>::value && !std::is_same_v<T, c10::IValue>) {
    if constexpr (IsNamed<typename T::value_type>::value) {
      auto b = other.begin();
      for (auto a = first.begin(); a != first.end() && b != other.end(); ++a, ++b) {
        if (a->first != b->first) refuse_unlike_maps(replica);
      }
    }
  }
}

}  // namespace detail

/// Puts values of one type together, tensor by tensor (see visit_tensors); what is no tensor comes from replica 0.
/// @throws Error  as gather_tensors, or where maps have different keys
template <typename T>
T gather(const std::vector<T>& outputs, const ReplicaDevice& device, std::int64_t dim = 0) {
  std::vector<std::vector<at::Tensor>> tensors;
  for (const T& output : outputs) {
    detail::check_alike(outputs.front(), output, tensors.size());
    tensors.push_back(tensors_of(output));
  }
  const std::vector<at::Tensor> gathered = detail::gather_all(tensors, device, dim);
  return with_tensors(outputs.front(), gathered);
}

}  // namespace lockstep
