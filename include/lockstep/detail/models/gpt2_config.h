#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/detail/models/activation.h"
#include "lockstep/detail/models/sequence_head.h"

namespace lockstep {

/// A GPT-2's sizes and rates, under Hugging Face's names and with their defaults (the smallest GPT-2).
struct GPT2Config {
  std::int64_t vocab_size = 50257;
  std::int64_t n_positions = 1024;
  std::int64_t n_embd = 768;
  std::int64_t n_layer = 12;
  std::int64_t n_head = 12;
  std::optional<std::int64_t> n_inner;  ///< default: 4 n_embd
  Activation activation_function = Activation::GeluNew;
  double resid_pdrop = 0.1;
  double embd_pdrop = 0.1;
  double attn_pdrop = 0.1;
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  bool scale_attn_weights = true;
  bool scale_attn_by_inverse_layer_idx = false;
  bool reorder_and_upcast_attn = false;      ///< attention scores in fp32 whatever the weights' dtype
  std::optional<std::int64_t> pad_token_id;  ///< GPT-2 has no padding token; its end-of-text token serves
  bool tie_word_embeddings = true;
  SequenceHead head;                    ///< labels and problem type of a classifier
  bool gradient_checkpointing = false;  ///< recompute each block in backward instead of keeping its activations
  std::string source;                   ///< the JSON that it was read from, including settings that have no member here

  /// As BertConfig::from_file. "hidden_size", "max_position_embeddings", "num_attention_heads" and "num_hidden_layers"
  /// are accepted as other names of the settings above.
  static GPT2Config from_file(const std::string& path);
  /// The text of a `config.json`: `source`, with these settings in place of its own.
  std::string to_json(const std::string& architecture) const;
  /// @throws Error  naming the field, if no model can have this configuration
  void check(const std::string& where) const;
};

/// The configurations that have a name: "gpt2" (12 layers of 768), "gpt2-medium" (24 of 1024), "gpt2-large" (36 of
/// 1280) and, for tests and demonstrations, "gpt2-tiny" (2 layers of 128).
/// @throws Error  for another name
GPT2Config gpt2_config_of_name(const std::string& name);

using Gpt2Config [[deprecated("its name is GPT2Config, as in Hugging Face")]] = GPT2Config;

}  // namespace lockstep
