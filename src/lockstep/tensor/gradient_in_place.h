#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep {

/// The gradient of `parameter` if a backward function may add to it directly, else undefined.
///
/// Autograd computes a gradient into new memory and then adds it to `.grad`: for a weight of 10 MB that is 40 MB of
/// traffic and fresh pages. If the gradient exists already (a bucket's view, or zeros), a matrix product can add to it
/// directly, and an embedding can touch only the rows that it read. A function that did so returns an undefined
/// gradient. Autograd still visits the parameter's accumulator, so hooks on it run.
///
/// This is allowed only within a plain `backward()`. It is not allowed if a graph of the backward pass is requested, if
/// gradients are captured (`autograd::grad`) or restricted to some inputs, if hooks on the parameter read its gradient,
/// or if the parameter is not a leaf.
at::Tensor gradient_in_place(const at::Tensor& parameter);

/// Adds `gradient`, which a backward function has computed in its own type, to the gradient of `parameter` in place if
/// it may. @return  undefined if it did; else what the function must return: the gradient in the parameter's type
at::Tensor hand_over_gradient(const at::Tensor& parameter, const at::Tensor& gradient);

}  // namespace lockstep
