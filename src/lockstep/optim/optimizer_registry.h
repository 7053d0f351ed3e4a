#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep {

class FlatOptimizer;

/// The FlatOptimizers of this process and their parameters. A function that receives only parameters finds their
/// optimizers here: gradient clipping learns that a fused update averages their gradients, and `join` learns which
/// optimizers made no steps. Thread-safe, because ranks may be threads. An optimizer can be found only through one of
/// its parameters.
namespace optimizer_registry {

/// From now on `find` returns `optimizer` for these parameters, too.
void add(FlatOptimizer& optimizer, const std::vector<at::Tensor>& parameters);
void remove(FlatOptimizer& optimizer) noexcept;
/// The optimizers that update any of `parameters`, in the order of their construction.
std::vector<FlatOptimizer*> find(const std::vector<at::Tensor>& parameters);

}  // namespace optimizer_registry
}  // namespace lockstep
