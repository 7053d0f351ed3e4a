#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <vector>

#include "lockstep/detail/tensor/tensor_fields.h"

namespace lockstep {

/// Applies a function to every tensor in a structure of maps and vectors, at any depth, in order: Accelerate's
/// recursively_apply. Maps are visited in the order of their keys, which is equal on all ranks.
struct NestedTensors {
  template <typename Function>
  static at::Tensor apply(const at::Tensor& tensor, const Function& function) {
    return function(tensor);
  }
  template <typename Inner, typename Function>
  static std::vector<Inner> apply(const std::vector<Inner>& parts, const Function& function) {
    std::vector<Inner> results;
    for (const Inner& part : parts) results.push_back(apply(part, function));
    return results;
  }
  template <typename Key, typename Inner, typename Function>
  static std::map<Key, Inner> apply(const std::map<Key, Inner>& parts, const Function& function) {
    std::map<Key, Inner> results;
    for (const auto& [key, part] : parts) results.emplace(key, apply(part, function));
    return results;
  }
};

/// Whether a type is such a structure, rather than a tensor.
template <typename Type>
inline constexpr bool kIsNested = false;
template <typename Inner>
inline constexpr bool kIsNested<std::vector<Inner>> = true;
template <typename Key, typename Inner>
inline constexpr bool kIsNested<std::map<Key, Inner>> = true;
template <>
inline constexpr bool kIsNested<TensorFields> = true;

}  // namespace lockstep
