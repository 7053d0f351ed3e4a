#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/detail/models/activation.h"
#include "lockstep/detail/models/sequence_head.h"

namespace lockstep {

/// Hugging Face's decoders of Llama's shape: RMS norms, rotary positions, heads that share keys and values, and a gated
/// feed-forward layer.
struct Llama {  ///< Touvron et al., 2023, arXiv:2302.13971; SmolLM 1 and 2, too
  static constexpr const char* kModel = "LlamaModel";
  static constexpr const char* kCausalLM = "LlamaForCausalLM";
};
struct Qwen2 {  ///< Yang et al., 2024, arXiv:2407.10671
  static constexpr const char* kModel = "Qwen2Model";
  static constexpr const char* kCausalLM = "Qwen2ForCausalLM";
};
struct Qwen3 {  ///< Yang et al., 2025, arXiv:2505.09388
  static constexpr const char* kModel = "Qwen3Model";
  static constexpr const char* kCausalLM = "Qwen3ForCausalLM";
};
struct Mistral {  ///< Jiang et al., 2023, arXiv:2310.06825
  static constexpr const char* kModel = "MistralModel";
  static constexpr const char* kCausalLM = "MistralForCausalLM";
};
struct SmolLM3 {  ///< Bakouch et al., 2025, Hugging Face
  static constexpr const char* kModel = "SmolLM3Model";
  static constexpr const char* kCausalLM = "SmolLM3ForCausalLM";
};

/// How positions turn queries and keys (Su et al., 2021, arXiv:2104.09864): "rope_parameters" of a config.json, or
/// "rope_theta" and "rope_scaling" of older ones.
struct RopeSettings {
  enum class Type {
    Default,
    Linear,  ///< all frequencies divided by `factor`
    Llama3,  ///< low frequencies divided by `factor`
    Yarn     ///< Peng et al., 2023, arXiv:2309.00071
  };
  Type type = Type::Default;
  double theta = 10000;
  double factor = 1;
  std::int64_t original_max_position_embeddings = 0;  ///< 0: max_position_embeddings
  double low_freq_factor = 1;                         ///< of Llama3
  double high_freq_factor = 4;                        ///< of Llama3
  std::optional<double> attention_factor;             ///< of Yarn; default: by `factor`
  double beta_fast = 32;                              ///< of Yarn
  double beta_slow = 1;                               ///< of Yarn
  std::optional<double> mscale;                       ///< of Yarn
  std::optional<double> mscale_all_dim;               ///< of Yarn
  bool truncate = true;                               ///< of Yarn
};

/// The sizes and rates of such a decoder, under Hugging Face's names.
struct RotarySettings {
  std::int64_t vocab_size = 32000;
  std::int64_t hidden_size = 4096;
  std::int64_t intermediate_size = 11008;
  std::int64_t num_hidden_layers = 32;
  std::int64_t num_attention_heads = 32;
  std::int64_t num_key_value_heads = 0;  ///< 0: as many as heads
  std::int64_t head_dim = 0;             ///< 0: hidden_size / num_attention_heads
  Activation hidden_act = Activation::Silu;
  std::int64_t max_position_embeddings = 2048;
  double initializer_range = 0.02;
  double rms_norm_eps = 1e-6;
  double attention_dropout = 0;
  bool attention_bias = false;  ///< of Llama, Qwen3 and SmolLM3: all four projections have one
  bool mlp_bias = false;        ///< of Llama and SmolLM3
  RopeSettings rope;
  std::optional<std::int64_t> sliding_window;  ///< how many tokens a layer that slides sees
  std::vector<bool> sliding_layers;            ///< the layers that slide; empty: none, and in Mistral all
  std::vector<bool> layers_without_rope;       ///< of SmolLM3; empty: each fourth
  std::optional<std::int64_t> pad_token_id;    ///< its word embedding gets no gradient
  bool tie_word_embeddings = false;
  SequenceHead head;                    ///< labels, which these models keep for others
  bool gradient_checkpointing = false;  ///< recompute each layer in backward instead of keeping its activations
  std::string source;                   ///< the JSON that it was read from, including settings that have no member here

  std::int64_t head_size() const { return head_dim > 0 ? head_dim : hidden_size / num_attention_heads; }
  std::int64_t key_value_heads() const { return num_key_value_heads > 0 ? num_key_value_heads : num_attention_heads; }
};

template <typename Family>
struct RotaryConfig : RotarySettings {
  /// Hugging Face's defaults for this model.
  RotaryConfig();
  /// Reads `config.json`. Settings that do not change the result are ignored, as Hugging Face ignores them.
  /// @param path  the file or its folder
  /// @throws Error  naming file and field: the type is wrong, a value is out of range, sizes do not fit each other, or
  /// a setting would change the result and is not supported (positions of the kinds "dynamic" and "longrope",
  /// quantised weights…)
  static RotaryConfig from_file(const std::string& path);
  /// The text of a `config.json`: `source`, with these settings in place of its own.
  std::string to_json(const std::string& architecture) const;
  /// @throws Error  naming the field, if no model can have this configuration
  void check(const std::string& where) const;
};

using LlamaConfig = RotaryConfig<Llama>;
using Qwen2Config = RotaryConfig<Qwen2>;
using Qwen3Config = RotaryConfig<Qwen3>;
using MistralConfig = RotaryConfig<Mistral>;
using SmolLM3Config = RotaryConfig<SmolLM3>;

}  // namespace lockstep
