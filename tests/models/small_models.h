#pragma once

#include "lockstep/models/bert_heads.h"
#include "lockstep/models/gpt2.h"
#include "lockstep/models/rotary_models.h"

// Models that take no time to build.
namespace lockstep {

inline BertConfig small_bert() {
  BertConfig config;
  config.vocab_size = 11;
  config.hidden_size = 8;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.intermediate_size = 12;
  config.max_position_embeddings = 6;
  return config;
}

inline GPT2Config small_gpt2() {
  GPT2Config config;
  config.vocab_size = 11;
  config.n_embd = 8;
  config.n_layer = 2;
  config.n_head = 2;
  config.n_positions = 6;
  return config;
}

template <typename Family>
RotaryConfig<Family> small_rotary() {
  RotaryConfig<Family> config;
  config.vocab_size = 11;
  config.hidden_size = 8;
  config.intermediate_size = 12;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 4;
  config.max_position_embeddings = 16;
  config.initializer_range = 0.3;
  config.pad_token_id = 0;
  return config;
}

}  // namespace lockstep
