#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/optim/named_state.h"

namespace torch {
namespace nn {
class Module;
}
}  // namespace torch

namespace lockstep {

/// Gives the memory that parameters move into: one dimension of `numel` elements, contiguous, on a multiple of 64
/// bytes. Its content does not matter.
using AllocateFlat = std::function<at::Tensor(std::int64_t numel, at::ScalarType dtype)>;

/// Parameters that lie one behind the other, each at a multiple of 64 bytes; the gaps are zero.
struct FlatParameters {
  at::Tensor memory;  ///< one dimension
  std::vector<at::Tensor> parameters;
  std::vector<std::int64_t> offsets;  ///< of each, in elements
};

/// Moves parameters into one buffer for each dtype and device, in the order given: each becomes a view of it. They stay
/// the same tensors, so modules, names, optimizers and autograd hooks see nothing but faster updates. Strides are kept,
/// gradients left alone. A tensor that is listed twice is moved once.
///
/// @param allocate  default: ordinary memory of the parameters' device
/// @return  in the order in which the kinds of parameters first came
/// @throws Error  if two parameters share memory, one is not a dense leaf, or `allocate` returns something else than it
///                was asked for
std::vector<FlatParameters> flatten(const std::vector<at::Tensor>& parameters, const AllocateFlat& allocate = {});
/// All parameters of a module.
std::vector<FlatParameters> flatten(torch::nn::Module& module, const AllocateFlat& allocate = {});

/// @throws Error  if two of the parameters are views of the same memory: moving them would part them
void check_no_shared_memory(const std::vector<at::Tensor>& parameters);

}  // namespace lockstep
