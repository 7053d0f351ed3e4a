#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace lockstep {

/// Computes layer(x) without keeping the layer's intermediate results: backward computes them again, from the same
/// random numbers. Saves memory at the cost of one more forward pass. (Chen et al., 2016, arXiv:1604.06174)
///
/// Backward runs another backward inside, which gives the layer's parameters their gradients. If x needs no gradient or
/// gradients are off, this is a plain call.
/// @param layer  must give the same result for the same x and generator, and must live until backward is done
at::Tensor checkpoint_activations(const std::function<at::Tensor(const at::Tensor&)>& layer, const at::Tensor& x);

}  // namespace lockstep
