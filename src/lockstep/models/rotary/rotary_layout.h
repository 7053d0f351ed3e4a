#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "lockstep/detail/models/rotary_config.h"

namespace lockstep {

/// In what a family of such decoders differs from Llama.
struct RotaryLayout {
  enum class Window { None, EveryLayer, ListedLayers };

  const char* name;               ///< model_type
  const char* layer;              ///< Hugging Face's class of its layers, which names the units of fully_shard
  bool has_query_biases = false;  ///< queries, keys and values have a bias, and the output has none
  bool reads_attention_bias = false;
  bool reads_mlp_bias = false;
  bool normalizes_heads = false;  ///< of queries and keys
  bool reads_no_rope_layers = false;
  bool requires_whole_heads = false;  ///< hidden_size must be a multiple of the number of heads
  Window window = Window::None;
  std::optional<std::int64_t> listed_window;  ///< of layers that slide, if a file names no size
};

/// The layout of Llama, Qwen2, Qwen3, Mistral or SmolLM3.
template <typename Family>
const RotaryLayout& rotary_layout_of();
template <>
const RotaryLayout& rotary_layout_of<Llama>();
template <>
const RotaryLayout& rotary_layout_of<Qwen2>();
template <>
const RotaryLayout& rotary_layout_of<Qwen3>();
template <>
const RotaryLayout& rotary_layout_of<Mistral>();
template <>
const RotaryLayout& rotary_layout_of<SmolLM3>();

/// SmolLM3's layers without positions, if nothing says which.
constexpr std::int64_t kNoRopeInterval = 4;

/// Whether a layer turns queries and keys by their positions.
inline bool layer_rotates(const RotarySettings& settings, const RotaryLayout& layout, std::size_t index) {
  if (!settings.layers_without_rope.empty()) return !settings.layers_without_rope.at(index);
  return !layout.reads_no_rope_layers || (static_cast<std::int64_t>(index) + 1) % kNoRopeInterval != 0;
}

/// Whether a layer sees a window of tokens only.
inline bool layer_slides(const RotarySettings& settings, const RotaryLayout& layout, std::size_t index) {
  if (!settings.sliding_window) return false;
  if (settings.sliding_layers.empty()) return layout.window == RotaryLayout::Window::EveryLayer;
  return settings.sliding_layers.at(index);
}

}  // namespace lockstep
