#include "lockstep/models/rotary/rotary_layout.h"

namespace lockstep {
namespace {

RotaryLayout llama_layout() {
  RotaryLayout layout;
  layout.name = "llama";
  layout.layer = "LlamaDecoderLayer";
  layout.reads_attention_bias = true;
  layout.reads_mlp_bias = true;
  layout.requires_whole_heads = true;
  return layout;
}

RotaryLayout qwen2_layout() {
  RotaryLayout layout;
  layout.name = "qwen2";
  layout.layer = "Qwen2DecoderLayer";
  layout.has_query_biases = true;
  layout.window = RotaryLayout::Window::ListedLayers;
  layout.listed_window = 4096;
  return layout;
}

RotaryLayout qwen3_layout() {
  RotaryLayout layout;
  layout.name = "qwen3";
  layout.layer = "Qwen3DecoderLayer";
  layout.reads_attention_bias = true;
  layout.normalizes_heads = true;
  layout.window = RotaryLayout::Window::ListedLayers;
  layout.listed_window = 4096;
  return layout;
}

RotaryLayout mistral_layout() {
  RotaryLayout layout;
  layout.name = "mistral";
  layout.layer = "MistralDecoderLayer";
  layout.window = RotaryLayout::Window::EveryLayer;
  return layout;
}

RotaryLayout smollm3_layout() {
  RotaryLayout layout;
  layout.name = "smollm3";
  layout.layer = "SmolLM3DecoderLayer";
  layout.reads_attention_bias = true;
  layout.reads_mlp_bias = true;
  layout.reads_no_rope_layers = true;
  layout.window = RotaryLayout::Window::ListedLayers;
  return layout;
}

}  // namespace

template <>
const RotaryLayout& rotary_layout_of<Llama>() {
  static const RotaryLayout layout = llama_layout();
  return layout;
}

template <>
const RotaryLayout& rotary_layout_of<Qwen2>() {
  static const RotaryLayout layout = qwen2_layout();
  return layout;
}

template <>
const RotaryLayout& rotary_layout_of<Qwen3>() {
  static const RotaryLayout layout = qwen3_layout();
  return layout;
}

template <>
const RotaryLayout& rotary_layout_of<Mistral>() {
  static const RotaryLayout layout = mistral_layout();
  return layout;
}

template <>
const RotaryLayout& rotary_layout_of<SmolLM3>() {
  static const RotaryLayout layout = smollm3_layout();
  return layout;
}

}  // namespace lockstep
