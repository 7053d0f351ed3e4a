#include <utility>

#include "lockstep/detail/models/activation.h"

namespace lockstep {
namespace {

constexpr std::pair<const char*, Activation> kNames[] = {
    {"gelu", Activation::Gelu},         {"gelu_python", Activation::Gelu},
    {"gelu_new", Activation::GeluNew},  {"gelu_pytorch_tanh", Activation::GeluNew},
    {"gelu_fast", Activation::GeluNew}, {"quick_gelu", Activation::QuickGelu},
    {"relu", Activation::Relu},         {"silu", Activation::Silu},
    {"swish", Activation::Silu},        {"tanh", Activation::Tanh}};

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

}  // namespace lockstep
