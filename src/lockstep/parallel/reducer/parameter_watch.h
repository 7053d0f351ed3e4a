#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/detail/tensor/module_tensors.h"

namespace lockstep {

/// Why a wrapped module's gradients can no longer be synchronised, worded for an Error.
struct ParameterChange {
  std::string what;
  std::string fix;
};

/// Notices changes of a module's parameters after wrapping that the buckets of gradients cannot follow: another type,
/// shape or device (`module->to`, a file of another model), other, more or fewer tensors, and gradients for parameters
/// that were frozen. New values and new memory are not reported.
class ParameterWatch {
 public:
  /// @param module   the module, with its wrapped parameters; everything that it refers to must outlive this object
  /// @param ignored  names that may change freely
  ParameterWatch(const ModuleTensors& module, const std::vector<std::string>& ignored);

  /// Returns the first change found. Costs a few comparisons of numbers for each parameter, and allocates only lists of
  /// submodules.
  std::optional<ParameterChange> look();

 private:
  struct Watched {
    std::string name;
    at::Tensor tensor;
    bool trained;  // has a place in a bucket
    at::ScalarType dtype;
    c10::Device device;
    std::vector<std::int64_t> sizes;
  };

  static std::optional<ParameterChange> change_of(const Watched& watched);
  std::optional<ParameterChange> change_of_places();

  const ModuleTensors& module_;
  std::vector<std::string> ignored_;
  std::vector<Watched> watched_;
  ParameterPlaces places_, now_;
};

/// The tensors whose names are not in `ignored`.
std::vector<NamedTensor> without(std::vector<NamedTensor> tensors, const std::vector<std::string>& ignored);

}  // namespace lockstep
