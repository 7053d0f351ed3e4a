#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace lockstep {

/// layer(x), without keeping what the layer computes in between: backward computes it again, from the same random
/// numbers. Saves memory for one more forward pass. (Chen et al., 2016, arXiv:1604.06174)
///
/// Backward runs a backward of its own inside, in which the layer's parameters get their gradients. Where x needs no
/// gradient or gradients are off, it is a plain call.
/// @param layer  must give the same result for the same x and generator, and live until backward is done
at::Tensor checkpoint_activations(const std::function<at::Tensor(const at::Tensor&)>& layer, const at::Tensor& x);

}  // namespace lockstep
