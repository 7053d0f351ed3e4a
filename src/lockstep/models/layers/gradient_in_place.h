#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep {

/// The gradient of `parameter` if a backward function may add to it itself, else undefined.
///
/// Autograd computes a gradient into new memory and then adds it to `.grad`: for a weight of 10 MB that is 40 MB of
/// traffic and fresh pages. Where the gradient is there already (a bucket's view, or zeros), a matrix product can add
/// to it directly, and an embedding can touch only the rows that it read. A function that did so returns an undefined
/// gradient; autograd then still visits the parameter's accumulator, so that hooks on it run.
///
/// Only within a plain `backward()`: not where a graph of the backward pass is asked for, not where gradients are
/// captured (`autograd::grad`) or restricted to some inputs, and not where the parameter has hooks that want to see the
/// gradient, or is no leaf.
at::Tensor gradient_in_place(const at::Tensor& parameter);

}  // namespace lockstep
