#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep {

class FlatOptimizer;

/// The FlatOptimizers of this process and their parameters. Whoever is given parameters alone learns here whose they
/// are: a function that clips a list finds out that a fused step averages their gradients, and `join` which optimizers
/// stood still. Thread-safe, because ranks may be threads; an optimizer is found only by those who hold one of its
/// parameters.
namespace optimizer_registry {

/// From now on `optimizer` is found by these parameters, too.
void add(FlatOptimizer& optimizer, const std::vector<at::Tensor>& parameters);
void remove(FlatOptimizer& optimizer) noexcept;
/// Those that update any of `parameters`, in the order of their construction.
std::vector<FlatOptimizer*> find(const std::vector<at::Tensor>& parameters);

}  // namespace optimizer_registry
}  // namespace lockstep
