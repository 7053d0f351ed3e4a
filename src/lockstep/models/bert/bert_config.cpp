#include "lockstep/models/bert_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/models/config_checks.h"
#include "lockstep/models/config_file.h"

namespace lockstep {
namespace {

// Refuses settings of Hugging Face's BERT that change what it computes.
void refuse_unsupported_bert(const ConfigFile& file) {
  file.require("model_type", {"\"bert\""});
  file.require("position_embedding_type", {"\"absolute\""});
  file.require("is_decoder", {"false"});
  file.require("add_cross_attention", {"false"});
  file.require("is_encoder_decoder", {"false"});
  file.require("pruned_heads", {"{}"});
  file.require("quantization_config", {});
}

}  // namespace

BertConfig BertConfig::from_file(const std::string& path) {
  const ConfigFile file(path);
  refuse_unsupported_bert(file);
  BertConfig c;
  c.vocab_size = file.integer({"vocab_size"}, c.vocab_size, 1, ConfigFile::kMaxSize);
  c.hidden_size = file.integer({"hidden_size"}, c.hidden_size, 1, ConfigFile::kMaxSize);
  c.num_hidden_layers = file.integer({"num_hidden_layers"}, c.num_hidden_layers, 0, ConfigFile::kMaxLayers);
  c.num_attention_heads = file.integer({"num_attention_heads"}, c.num_attention_heads, 1, ConfigFile::kMaxSize);
  c.intermediate_size = file.integer({"intermediate_size"}, c.intermediate_size, 1, ConfigFile::kMaxSize);
  c.hidden_act = read_activation(file, "hidden_act", c.hidden_act);
  c.hidden_dropout_prob = file.number({"hidden_dropout_prob"}, c.hidden_dropout_prob, 0, 1);
  c.attention_probs_dropout_prob = file.number({"attention_probs_dropout_prob"}, c.attention_probs_dropout_prob, 0, 1);
  c.max_position_embeddings =
      file.integer({"max_position_embeddings"}, c.max_position_embeddings, 1, ConfigFile::kMaxSize);
  c.type_vocab_size = file.integer({"type_vocab_size"}, c.type_vocab_size, 1, ConfigFile::kMaxSize);
  c.initializer_range = file.number({"initializer_range"}, c.initializer_range, 0, 1e6);
  c.layer_norm_eps = file.number({"layer_norm_eps"}, c.layer_norm_eps, 0, 1);
  if (file.json().contains("pad_token_id")) {
    c.pad_token_id.reset();
    if (file.has("pad_token_id")) c.pad_token_id = file.integer({"pad_token_id"}, 0, 0, c.vocab_size - 1);
  }
  if (file.has("classifier_dropout")) c.classifier_dropout = file.number({"classifier_dropout"}, 0, 0, 1);
  c.tie_word_embeddings = file.boolean({"tie_word_embeddings"}, c.tie_word_embeddings);
  c.gradient_checkpointing = file.boolean({"gradient_checkpointing"}, false);
  c.head = read_sequence_head(file);
  c.source = file.json().dump();
  c.check(file.path());
  return c;
}

void BertConfig::check(const std::string& where) const {
  const ConfigChecks checks(where);
  checks.heads_divide({"hidden_size", hidden_size}, {"num_attention_heads", num_attention_heads});
  checks.vocabulary(vocab_size, pad_token_id);
  checks.positive({"intermediate_size", intermediate_size});
  checks.positive({"max_position_embeddings", max_position_embeddings}, "give a positive length");
  checks.positive({"type_vocab_size", type_vocab_size}, "give at least 1");
  checks.layers({"num_hidden_layers", num_hidden_layers});
  checks.labels(head);
}

std::string BertConfig::to_json(const std::string& architecture) const {
  nlohmann::json json = source.empty() ? nlohmann::json::object() : nlohmann::json::parse(source);
  const auto set = [&](const char* key, const auto& value) { json[key] = value; };
  set("architectures", std::vector<std::string>{architecture});
  set("model_type", "bert");
  set("vocab_size", vocab_size);
  set("hidden_size", hidden_size);
  set("num_hidden_layers", num_hidden_layers);
  set("num_attention_heads", num_attention_heads);
  set("intermediate_size", intermediate_size);
  set("hidden_act", activation_name(hidden_act));
  set("hidden_dropout_prob", hidden_dropout_prob);
  set("attention_probs_dropout_prob", attention_probs_dropout_prob);
  set("max_position_embeddings", max_position_embeddings);
  set("type_vocab_size", type_vocab_size);
  set("initializer_range", initializer_range);
  set("layer_norm_eps", layer_norm_eps);
  set("tie_word_embeddings", tie_word_embeddings);
  json["pad_token_id"] = pad_token_id ? nlohmann::json(*pad_token_id) : nlohmann::json();
  json["classifier_dropout"] = classifier_dropout ? nlohmann::json(*classifier_dropout) : nlohmann::json();
  json.erase("gradient_checkpointing");  // a way to train, not a property of the weights
  json.erase("torch_dtype");             // each tensor in the file has its own dtype
  write_sequence_head(head, json);
  return json.dump(2) + "\n";
}

BertConfig bert_config_of_size(const std::string& size) {
  BertConfig config;
  const auto set = [&](std::int64_t layers, std::int64_t hidden) {
    config.num_hidden_layers = layers;
    config.hidden_size = hidden;
    config.num_attention_heads = hidden / 64;
    config.intermediate_size = 4 * hidden;
  };
  if (size == "tiny") {
    set(2, 128);
  } else if (size == "mini") {
    set(4, 256);
  } else if (size == "small") {
    set(4, 512);
  } else if (size == "base") {
    set(12, 768);
  } else {
    throw Error("there is no BERT of size \"" + size + "\"", "bert_config_of_size", "choose tiny, mini, small or base");
  }
  return config;
}

}  // namespace lockstep
