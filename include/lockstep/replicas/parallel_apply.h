#pragma once

#include <cstddef>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/detail/tensor/call_forward.h"
#include "lockstep/detail/tensor/map_tensors.h"
#include "lockstep/replicas/replicate.h"

namespace lockstep {

/// Calls `function(replica, arguments...)` for each tuple of arguments, on all replicas at once, and returns the
/// results in replica order. Differentiable: backward runs on all replicas at once too.
/// @param chunks  the result of `scatter` for a tuple of arguments; at most one per replica
/// @throws the exception of a replica, with the replica's number and device
template <typename ModuleType, typename Function, typename... Args>
auto parallel_apply(Replicas<ModuleType>& replicas, const std::vector<std::tuple<Args...>>& chunks,
                    Function&& function) {
  using Output = std::decay_t<decltype(function(replicas[0], std::declval<Args&>()...))>;
  std::vector<std::vector<at::Tensor>> inputs;
  for (const auto& chunk : chunks) inputs.push_back(tensors_of(chunk));
  std::vector<std::optional<Output>> outputs(chunks.size());
  const auto results = replicas.set().apply(inputs, [&](std::size_t i, const std::vector<at::Tensor>& tensors) {
    auto arguments = with_tensors(chunks[i], tensors);
    outputs[i].emplace(std::apply([&](auto&... each) { return function(replicas[i], each...); }, arguments));
    return tensors_of(*outputs[i]);
  });
  std::vector<Output> values;
  for (std::size_t i = 0; i < results.size(); ++i) values.push_back(with_tensors(std::move(*outputs[i]), results[i]));
  return values;
}

/// Calls the modules' own `forward`.
template <typename ModuleType, typename... Args>
auto parallel_apply(Replicas<ModuleType>& replicas, const std::vector<std::tuple<Args...>>& chunks) {
  return parallel_apply(replicas, chunks,
                        [](ModuleType& module, auto&... each) { return call_forward(module, each...); });
}

}  // namespace lockstep
