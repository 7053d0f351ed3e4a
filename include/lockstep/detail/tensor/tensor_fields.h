#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <utility>

namespace lockstep {

/// Tensors by name: a std::map, whose `at` names what is missing and what is there.
class TensorFields : public std::map<std::string, at::Tensor> {
 public:
  using Map = std::map<std::string, at::Tensor>;
  using Map::Map;
  TensorFields() = default;
  TensorFields(Map fields) : Map(std::move(fields)) {}

  /// @throws Error  that names `name` and all fields, if there is no field of that name
  at::Tensor& at(const std::string& name);
  const at::Tensor& at(const std::string& name) const;
};

}  // namespace lockstep
