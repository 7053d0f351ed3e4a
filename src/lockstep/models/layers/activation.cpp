#include "lockstep/models/activation.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>

#include <utility>

namespace lockstep {
namespace {

constexpr std::pair<const char*, Activation> kNames[] = {
    {"gelu", Activation::Gelu},         {"gelu_python", Activation::Gelu},
    {"gelu_new", Activation::GeluNew},  {"gelu_pytorch_tanh", Activation::GeluNew},
    {"gelu_fast", Activation::GeluNew}, {"quick_gelu", Activation::QuickGelu},
    {"relu", Activation::Relu},         {"silu", Activation::Silu},
    {"swish", Activation::Silu},        {"tanh", Activation::Tanh}};

// Hendrycks and Gimpel (2016), arXiv:1606.08415: the logistic function that is nearest to the normal distribution's.
constexpr double kQuickGeluFactor = 1.702;

}  // namespace

std::optional<Activation> parse_activation(const std::string& name) {
  for (const auto& [known, activation] : kNames) {
    if (name == known) return activation;
  }
  return std::nullopt;
}

std::string activation_name(Activation activation) {
  for (const auto& [name, known] : kNames) {
    if (activation == known) return name;  // the first is the usual one
  }
  return "";
}

std::string known_activations() {
  std::string text;
  for (const auto& item : kNames) text += (text.empty() ? "" : ", ") + std::string(item.first);
  return text;
}

at::Tensor activate(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::Gelu:
      return at::gelu(x);
    case Activation::GeluNew:
      return at::gelu(x, "tanh");
    case Activation::QuickGelu:
      return x * at::sigmoid(x * kQuickGeluFactor);
    case Activation::Relu:
      return at::relu(x);
    case Activation::Silu:
      return at::silu(x);
    case Activation::Tanh:
      return at::tanh(x);
  }
  return x;
}

}  // namespace lockstep
