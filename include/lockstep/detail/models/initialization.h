#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <string>

namespace lockstep {

/// Whether a new model draws random weights, or leaves them unset because weights are read right afterwards.
enum class InitialWeights { Random, Unset };

/// Fills the parameter with this full name in place.
using Initializer = std::function<void(const std::string& name, at::Tensor& parameter)>;

/// BERT's and GPT-2's scheme: normal(0, range), biases 0, norms 1.
/// @param name  ends in "bias", or has "LayerNorm", "ln_1", "ln_2", "ln_f" or "…layer_norm" before its last
/// part, or is a matrix
void initialize_transformer_parameter(const std::string& name, at::Tensor& parameter, double range);

/// Runs `initializer` over every parameter, without recording it for autograd.
void initialize_parameters(torch::nn::Module& module, const Initializer& initializer);

}  // namespace lockstep
