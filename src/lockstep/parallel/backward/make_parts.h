#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "lockstep/detail/tensor/module_tensors.h"
#include "lockstep/parallel/agreement/replica_watch.h"
#include "lockstep/parallel/backward/backward_context.h"
#include "lockstep/parallel/backward/backward_part.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"

namespace lockstep {

/// A module's parameters, by how their gradients are averaged.
struct ReducerParameters {
  std::vector<NamedTensor> dense;   ///< in buckets; "the parameters" of a reducer are these
  std::vector<NamedTensor> sparse;  ///< row by row, at the end of backward
  std::vector<NamedTensor> frozen;  ///< require no gradient
};

/// All that require a gradient, beginning with the dense ones.
std::vector<NamedTensor> trained_of(const ReducerParameters& parameters);

/// What parts of a backward are made of. All of it must outlive them.
struct BackwardParties {
  BackwardContext& context;
  GradientBuckets& buckets;
  ReplicaWatch& replicas;
  std::function<bool(std::size_t)> is_kept;  ///< by parameter: the fused update has its gradient
};

/// The parts, in the order in which they are called. A fault that explains others comes first: ranks that run different
/// modules differ in everything else as well. @param module  WrappedModule::number
/// @param adds_slices  the backwards are those of slices, and are not synchronised themselves
std::vector<std::unique_ptr<BackwardPart>> make_backward_parts(const BackwardParties& of,
                                                               const ReducerParameters& parameters, int module,
                                                               bool adds_slices);

}  // namespace lockstep
