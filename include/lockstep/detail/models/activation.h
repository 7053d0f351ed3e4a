#pragma once

#include <optional>
#include <string>

namespace at {
class Tensor;
}

namespace lockstep {

/// The activations of feed-forward layers, under Hugging Face's names.
enum class Activation {
  Gelu,       ///< "gelu": x · Φ(x)
  GeluNew,    ///< "gelu_new", "gelu_pytorch_tanh" and "gelu_fast": the tanh approximation
  QuickGelu,  ///< "quick_gelu": x · sigmoid(1.702 x)
  Relu,       ///< "relu"
  Silu,       ///< "silu" and "swish"
  Tanh,       ///< "tanh"
};

/// The activation called `name`; nothing if the name is unknown. "gelu_python" gives Gelu and "gelu_fast" GeluNew,
/// because they compute the same values.
std::optional<Activation> parse_activation(const std::string& name);
/// The name of `activation` in Hugging Face's files.
std::string activation_name(Activation activation);
/// All names that parse_activation accepts, for error messages.
std::string known_activations();
at::Tensor activate(Activation activation, const at::Tensor& x);

}  // namespace lockstep
