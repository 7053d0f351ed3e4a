#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/detail/tensor/module_tensors.h"
#include "lockstep/parallel/fuse_options.h"
#include "lockstep/parallel/fused/fused_bucket.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"

namespace lockstep {

/// The submodules that are units by these options: their names, each once.
/// @throws Error  if the module has no submodule of a name or type
std::vector<std::string> unit_names(const FuseOptions& options, const ModuleTensors& module);

/// The innermost of the units with these names that the parameter is in: its place among them and 1. 0: none.
std::size_t unit_of(const std::string& parameter, const std::vector<std::string>& names);

/// Weights that are gathered and freed together.
struct WeightUnit {
  std::string name;                  ///< of the submodule; empty for what is in none
  std::vector<std::size_t> buckets;  ///< that hold any of its weights: their places in the fused update, ascending
};

/// Which parameter of a fused update belongs to which unit: the innermost that it is in. A parameter that two layers
/// share belongs to the first.
struct WeightUnits {
  std::vector<WeightUnit> units;  ///< [0] is everything outside of named units, perhaps without buckets
  std::vector<std::size_t> of;    ///< by parameter of `gradients`; 0 for those that are in no bucket

  WeightUnits(const std::vector<std::string>& names, const std::vector<FusedBucket>& buckets,
              const GradientBuckets& gradients);
};

}  // namespace lockstep
