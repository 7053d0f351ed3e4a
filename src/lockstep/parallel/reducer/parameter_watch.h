#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/tensor/module_tensors.h"

namespace lockstep {

/// Why a wrapped module's gradients cannot be synchronised any more, in words for an Error.
struct ParameterChange {
  std::string what;
  std::string fix;
};

/// Notices what happens to a module's parameters after it was wrapped, as far as the buckets of gradients cannot
/// follow: another type, shape or device (`module->to`, a file of another model), other tensors in their places, more
/// of them or fewer, and gradients for what was frozen. New values and new memory are not among it.
class ParameterWatch {
 public:
  /// @param module   with those of its parameters that are wrapped; what it refers to must outlive this
  /// @param ignored  names that may change as they like
  ParameterWatch(const ModuleTensors& module, const std::vector<std::string>& ignored);

  /// The first change found. Costs a few comparisons of numbers for each parameter, and allocates nothing but lists of
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

/// Those that are not named in `ignored`.
std::vector<NamedTensor> without(std::vector<NamedTensor> tensors, const std::vector<std::string>& ignored);

}  // namespace lockstep
