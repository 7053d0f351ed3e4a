#include "lockstep/models/bert/bert_json.h"

#include <nlohmann/json.hpp>

namespace lockstep {

void refuse_unsupported_encoder(const ConfigFile& file, const char* model_type) {
  file.require("model_type", {std::string("\"") + model_type + "\""});
  file.require("position_embedding_type", {"\"absolute\""});
  file.require("is_decoder", {"false"});
  file.require("add_cross_attention", {"false"});
  file.require("is_encoder_decoder", {"false"});
  file.require("pruned_heads", {"{}"});
  file.require("quantization_config", {});
}

void read_encoder_json(const ConfigFile& file, const BertJsonKeys& keys, BertConfig& c) {
  const auto size = [&](const char* key, std::int64_t& value) {
    value = file.integer({key}, value, 1, ConfigFile::kMaxSize);
  };
  size("vocab_size", c.vocab_size);
  size(keys.hidden_size, c.hidden_size);
  c.num_hidden_layers = file.integer({keys.layers}, c.num_hidden_layers, 0, ConfigFile::kMaxLayers);
  size(keys.heads, c.num_attention_heads);
  size(keys.intermediate_size, c.intermediate_size);
  c.hidden_act = read_activation(file, keys.activation, c.hidden_act);
  c.hidden_dropout_prob = file.number({keys.dropout}, c.hidden_dropout_prob, 0, 1);
  c.attention_probs_dropout_prob = file.number({keys.attention_dropout}, c.attention_probs_dropout_prob, 0, 1);
  size("max_position_embeddings", c.max_position_embeddings);
  size("type_vocab_size", c.type_vocab_size);
  c.initializer_range = file.number({"initializer_range"}, c.initializer_range, 0, 1e6);
  c.layer_norm_eps = file.number({"layer_norm_eps"}, c.layer_norm_eps, 0, 1);
  if (file.json().contains("pad_token_id")) {
    c.pad_token_id.reset();
    if (file.has("pad_token_id")) c.pad_token_id = file.integer({"pad_token_id"}, 0, 0, c.vocab_size - 1);
  }
  if (file.has(keys.classifier_dropout)) c.classifier_dropout = file.number({keys.classifier_dropout}, 0, 0, 1);
  c.tie_word_embeddings = file.boolean({"tie_word_embeddings"}, c.tie_word_embeddings);
  c.gradient_checkpointing = file.boolean({"gradient_checkpointing"}, false);
  c.head = read_sequence_head(file);
  c.source = file.json().dump();
}

nlohmann::json encoder_json(const BertConfig& c, const BertJsonKeys& keys, const char* model_type,
                            const std::string& architecture) {
  nlohmann::json json = c.source.empty() ? nlohmann::json::object() : nlohmann::json::parse(c.source);
  const auto set = [&](const char* key, const auto& value) { json[key] = value; };
  set("architectures", std::vector<std::string>{architecture});
  set("model_type", model_type);
  set("vocab_size", c.vocab_size);
  set(keys.hidden_size, c.hidden_size);
  set(keys.layers, c.num_hidden_layers);
  set(keys.heads, c.num_attention_heads);
  set(keys.intermediate_size, c.intermediate_size);
  set(keys.activation, activation_name(c.hidden_act));
  set(keys.dropout, c.hidden_dropout_prob);
  set(keys.attention_dropout, c.attention_probs_dropout_prob);
  set("max_position_embeddings", c.max_position_embeddings);
  set("initializer_range", c.initializer_range);
  set("tie_word_embeddings", c.tie_word_embeddings);
  json["pad_token_id"] = c.pad_token_id ? nlohmann::json(*c.pad_token_id) : nlohmann::json();
  json[keys.classifier_dropout] = c.classifier_dropout ? nlohmann::json(*c.classifier_dropout) : nlohmann::json();
  json.erase("gradient_checkpointing");  // a way to train, not a property of the weights
  for (const char* dtype : {"torch_dtype", "dtype"}) json.erase(dtype);  // each tensor in the file has its own
  write_sequence_head(c.head, json);
  return json;
}

}  // namespace lockstep
