#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/detail/optim/named_state.h"

namespace torch {
namespace nn {
class Module;
}
}  // namespace torch

namespace lockstep {

/// Allocates the memory that parameters move into: one dimension of `numel` elements, contiguous, aligned to 64 bytes.
/// Its content does not matter.
using AllocateFlat = std::function<at::Tensor(std::int64_t numel, at::ScalarType dtype)>;

/// Parameters that lie one behind the other, each at a multiple of 64 bytes. The gaps are zero.
struct FlatParameters {
  at::Tensor memory;  ///< one dimension
  std::vector<at::Tensor> parameters;
  std::vector<std::int64_t> offsets;  ///< offset of each parameter, in elements
};

/// Moves parameters into one buffer for each dtype and device, in the order given; each becomes a view of its buffer.
/// They stay the same tensors, so modules, names, optimizers and autograd hooks notice only faster updates. Strides are
/// kept, and gradients are left alone. A tensor that is listed twice is moved once.
///
/// @param allocate  default: ordinary memory on the parameters' device
/// @return  one element per dtype and device, in the order of the first parameter of each
/// @throws Error  if two parameters share memory, if one is not a dense leaf, or if the result of `allocate` is not
/// what was requested
std::vector<FlatParameters> flatten(const std::vector<at::Tensor>& parameters, const AllocateFlat& allocate = {});
/// Moves all parameters of a module.
std::vector<FlatParameters> flatten(torch::nn::Module& module, const AllocateFlat& allocate = {});

/// @throws Error  if two of the parameters are views of the same memory: moving them would separate them
void check_no_shared_memory(const std::vector<at::Tensor>& parameters);

}  // namespace lockstep
