#include "lockstep/detail/models/gpt2_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/detail/models/config_file.h"
#include "lockstep/models/config_checks.h"

namespace lockstep {
namespace {

// Refuses settings of Hugging Face's GPT-2 that change what it computes.
void refuse_unsupported_gpt2(const ConfigFile& file) {
  file.require("model_type", {"\"gpt2\""});
  file.require("add_cross_attention", {"false"});
  file.require("is_encoder_decoder", {"false"});
  file.require("pruned_heads", {"{}"});
  file.require("quantization_config", {});
}

void read_sizes(const ConfigFile& file, GPT2Config& c) {
  c.vocab_size = file.integer({"vocab_size"}, c.vocab_size, 1, ConfigFile::kMaxSize);
  c.n_positions = file.integer({"n_positions", "max_position_embeddings"}, c.n_positions, 1, ConfigFile::kMaxSize);
  c.n_embd = file.integer({"n_embd", "hidden_size"}, c.n_embd, 1, ConfigFile::kMaxSize);
  c.n_layer = file.integer({"n_layer", "num_hidden_layers"}, c.n_layer, 0, ConfigFile::kMaxLayers);
  c.n_head = file.integer({"n_head", "num_attention_heads"}, c.n_head, 1, ConfigFile::kMaxSize);
  if (file.has("n_inner")) c.n_inner = file.integer({"n_inner"}, 0, 1, ConfigFile::kMaxSize);
  if (file.has("pad_token_id")) c.pad_token_id = file.integer({"pad_token_id"}, 0, 0, c.vocab_size - 1);
}

}  // namespace

GPT2Config GPT2Config::from_file(const std::string& path) {
  const ConfigFile file(path);
  refuse_unsupported_gpt2(file);
  GPT2Config c;
  read_sizes(file, c);
  c.activation_function = read_activation(file, "activation_function", c.activation_function);
  c.resid_pdrop = file.number({"resid_pdrop"}, c.resid_pdrop, 0, 1);
  c.embd_pdrop = file.number({"embd_pdrop"}, c.embd_pdrop, 0, 1);
  c.attn_pdrop = file.number({"attn_pdrop"}, c.attn_pdrop, 0, 1);
  c.layer_norm_epsilon = file.number({"layer_norm_epsilon"}, c.layer_norm_epsilon, 0, 1);
  c.initializer_range = file.number({"initializer_range"}, c.initializer_range, 0, 1e6);
  c.scale_attn_weights = file.boolean({"scale_attn_weights"}, c.scale_attn_weights);
  c.scale_attn_by_inverse_layer_idx =
      file.boolean({"scale_attn_by_inverse_layer_idx"}, c.scale_attn_by_inverse_layer_idx);
  c.reorder_and_upcast_attn = file.boolean({"reorder_and_upcast_attn"}, c.reorder_and_upcast_attn);
  c.tie_word_embeddings = file.boolean({"tie_word_embeddings"}, c.tie_word_embeddings);
  c.gradient_checkpointing = file.boolean({"gradient_checkpointing"}, false);
  c.head = read_sequence_head(file);
  c.source = file.json().dump();
  c.check(file.path());
  return c;
}

void GPT2Config::check(const std::string& where) const {
  const ConfigChecks checks(where);
  checks.heads_divide({"n_embd", n_embd}, {"n_head", n_head});
  checks.vocabulary(vocab_size, pad_token_id);
  checks.positive({"n_positions", n_positions}, "give a positive length");
  if (n_inner) checks.positive({"n_inner", *n_inner});
  checks.layers({"n_layer", n_layer});
  checks.labels(head);
}

std::string GPT2Config::to_json(const std::string& architecture) const {
  nlohmann::json json = source.empty() ? nlohmann::json::object() : nlohmann::json::parse(source);
  for (const char* alias : {"hidden_size", "max_position_embeddings", "num_attention_heads", "num_hidden_layers"}) {
    json.erase(alias);
  }
  const auto set = [&](const char* key, const auto& value) { json[key] = value; };
  set("architectures", std::vector<std::string>{architecture});
  set("model_type", "gpt2");
  set("vocab_size", vocab_size);
  set("n_positions", n_positions);
  set("n_embd", n_embd);
  set("n_layer", n_layer);
  set("n_head", n_head);
  json["n_inner"] = n_inner ? nlohmann::json(*n_inner) : nlohmann::json();
  set("activation_function", activation_name(activation_function));
  set("resid_pdrop", resid_pdrop);
  set("embd_pdrop", embd_pdrop);
  set("attn_pdrop", attn_pdrop);
  set("layer_norm_epsilon", layer_norm_epsilon);
  set("initializer_range", initializer_range);
  set("scale_attn_weights", scale_attn_weights);
  set("scale_attn_by_inverse_layer_idx", scale_attn_by_inverse_layer_idx);
  set("reorder_and_upcast_attn", reorder_and_upcast_attn);
  set("tie_word_embeddings", tie_word_embeddings);
  if (pad_token_id) {
    set("pad_token_id", *pad_token_id);
  } else {
    json.erase("pad_token_id");
  }
  json.erase("gradient_checkpointing");  // a way to train, not a property of the weights
  for (const char* dtype : {"torch_dtype", "dtype"}) json.erase(dtype);  // each tensor in the file has its own
  write_sequence_head(head, json);
  return json.dump(2) + "\n";
}

GPT2Config gpt2_config_of_name(const std::string& name) {
  GPT2Config config;
  if (name == "gpt2-tiny") {
    config.n_layer = 2;
    config.n_embd = 128;
    config.n_head = 2;
  } else if (name == "gpt2-medium") {
    config.n_layer = 24;
    config.n_embd = 1024;
    config.n_head = 16;
  } else if (name == "gpt2-large") {
    config.n_layer = 36;
    config.n_embd = 1280;
    config.n_head = 20;
  } else if (name != "gpt2") {
    throw Error("there is no GPT-2 named \"" + name + "\"", "gpt2_config_of_name",
                "choose gpt2, gpt2-tiny, gpt2-medium or gpt2-large");
  }
  return config;
}

}  // namespace lockstep
