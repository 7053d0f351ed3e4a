#include "lockstep/detail/models/rotary_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "lockstep/detail/models/config_file.h"
#include "lockstep/models/config_checks.h"
#include "lockstep/models/rotary/layer_kinds_json.h"
#include "lockstep/models/rotary/rope_json.h"
#include "lockstep/models/rotary/rotary_layout.h"

namespace lockstep {

template <>
RotaryConfig<Llama>::RotaryConfig() = default;

template <>
RotaryConfig<Qwen2>::RotaryConfig() {
  vocab_size = 151936;
  intermediate_size = 22016;
  num_key_value_heads = 32;
  max_position_embeddings = 32768;
}

template <>
RotaryConfig<Qwen3>::RotaryConfig() {
  vocab_size = 151936;
  intermediate_size = 22016;
  num_key_value_heads = 32;
  head_dim = 128;
  max_position_embeddings = 32768;
}

template <>
RotaryConfig<Mistral>::RotaryConfig() {
  intermediate_size = 14336;
  num_key_value_heads = 8;
  max_position_embeddings = 131072;
  sliding_window = 4096;
}

template <>
RotaryConfig<SmolLM3>::RotaryConfig() {
  vocab_size = 128256;
  hidden_size = 2048;
  num_hidden_layers = 36;
  num_attention_heads = 16;
  num_key_value_heads = 4;
  max_position_embeddings = 32768;
  rope.theta = 2e6;
  pad_token_id = 128004;
  tie_word_embeddings = true;
}

namespace {

void read_rotary_sizes(const ConfigFile& file, RotarySettings& s) {
  const auto size = [&](const char* key, std::int64_t& value) {
    value = file.integer({key}, value, 1, ConfigFile::kMaxSize);
  };
  size("vocab_size", s.vocab_size);
  size("hidden_size", s.hidden_size);
  size("intermediate_size", s.intermediate_size);
  s.num_hidden_layers = file.integer({"num_hidden_layers"}, s.num_hidden_layers, 0, ConfigFile::kMaxLayers);
  size("num_attention_heads", s.num_attention_heads);
  if (file.json().contains("num_key_value_heads")) s.num_key_value_heads = 0;  // null: as many as heads
  s.num_key_value_heads = file.has("num_key_value_heads")
                              ? file.integer({"num_key_value_heads"}, 0, 1, ConfigFile::kMaxSize)
                              : s.num_key_value_heads;
  if (file.has("head_dim")) s.head_dim = file.integer({"head_dim"}, 0, 1, ConfigFile::kMaxSize);
  size("max_position_embeddings", s.max_position_embeddings);
  if (file.json().contains("pad_token_id")) s.pad_token_id.reset();
  if (file.has("pad_token_id")) s.pad_token_id = file.integer({"pad_token_id"}, 0, 0, s.vocab_size - 1);
}

void read_rotary_rates(const ConfigFile& file, const RotaryLayout& layout, RotarySettings& s) {
  s.hidden_act = read_activation(file, "hidden_act", s.hidden_act);
  s.initializer_range = file.number({"initializer_range"}, s.initializer_range, 0, 1e6);
  s.rms_norm_eps = file.number({"rms_norm_eps"}, s.rms_norm_eps, 0, 1);
  s.attention_dropout = file.number({"attention_dropout"}, s.attention_dropout, 0, 1);
  if (layout.reads_attention_bias) s.attention_bias = file.boolean({"attention_bias"}, s.attention_bias);
  if (layout.reads_mlp_bias) s.mlp_bias = file.boolean({"mlp_bias"}, s.mlp_bias);
  s.tie_word_embeddings = file.boolean({"tie_word_embeddings"}, s.tie_word_embeddings);
  s.gradient_checkpointing = file.boolean({"gradient_checkpointing"}, false);
  s.rope = read_rope(file, s.rope);
}

void check_heads(const RotarySettings& s, const RotaryLayout& layout, const ConfigChecks& checks) {
  checks.positive({"num_attention_heads", s.num_attention_heads});
  if (s.head_dim == 0 || layout.requires_whole_heads) {
    checks.heads_divide({"hidden_size", s.hidden_size}, {"num_attention_heads", s.num_attention_heads});
  }
  checks.heads_divide({"num_attention_heads", s.num_attention_heads}, {"num_key_value_heads", s.key_value_heads()});
  if (s.head_size() % 2 != 0) {
    checks.refuse("head_dim", fmt::format("is {}, but positions rotate pairs of numbers", s.head_size()),
                  "give an even size: hidden_size / num_attention_heads without head_dim");
  }
}

void check_layer_kinds(const RotarySettings& s, const RotaryLayout& layout, const ConfigChecks& checks) {
  const auto layers = static_cast<std::size_t>(s.num_hidden_layers);
  const auto fits = [&](const std::vector<bool>& list) { return list.empty() || list.size() == layers; };
  if (!fits(s.sliding_layers))
    checks.refuse("layer_types", "does not have an entry for each layer", "give one for each");
  if (!fits(s.layers_without_rope) || (!layout.reads_no_rope_layers && !s.layers_without_rope.empty())) {
    checks.refuse("no_rope_layers", "does not fit the model", "only SmolLM3 has it, with an entry for each layer");
  }
  if (s.sliding_window) checks.positive({"sliding_window", *s.sliding_window});
  if (layout.window == RotaryLayout::Window::None && s.sliding_window) {
    checks.refuse("sliding_window", "is set, but a Llama does not have it", "use a Mistral, or leave it out");
  }
}

}  // namespace

template <typename Family>
RotaryConfig<Family> RotaryConfig<Family>::from_file(const std::string& path) {
  const RotaryLayout& layout = rotary_layout_of<Family>();
  const ConfigFile file(path);
  file.require("model_type", {fmt::format("\"{}\"", layout.name)});
  for (const char* key : {"add_cross_attention", "is_encoder_decoder"}) file.require(key, {"false"});
  file.require("pruned_heads", {"{}"});
  file.require("quantization_config", {});
  RotaryConfig config;
  read_rotary_sizes(file, config);
  read_rotary_rates(file, layout, config);
  read_layer_kinds(file, layout, config);
  config.head = read_sequence_head(file);
  config.source = file.json().dump();
  config.check(file.path());
  return config;
}

template <typename Family>
std::string RotaryConfig<Family>::to_json(const std::string& architecture) const {
  const RotaryLayout& layout = rotary_layout_of<Family>();
  nlohmann::json json = source.empty() ? nlohmann::json::object() : nlohmann::json::parse(source);
  const auto set = [&](const char* key, const auto& value) { json[key] = value; };
  set("architectures", std::vector<std::string>{architecture});
  set("model_type", layout.name);
  set("vocab_size", vocab_size);
  set("hidden_size", hidden_size);
  set("intermediate_size", intermediate_size);
  set("num_hidden_layers", num_hidden_layers);
  set("num_attention_heads", num_attention_heads);
  set("num_key_value_heads", key_value_heads());
  if (head_dim > 0) set("head_dim", head_dim);
  set("hidden_act", activation_name(hidden_act));
  set("max_position_embeddings", max_position_embeddings);
  set("initializer_range", initializer_range);
  set("rms_norm_eps", rms_norm_eps);
  set("attention_dropout", attention_dropout);
  if (layout.reads_attention_bias) set("attention_bias", attention_bias);
  if (layout.reads_mlp_bias) set("mlp_bias", mlp_bias);
  set("tie_word_embeddings", tie_word_embeddings);
  json["pad_token_id"] = pad_token_id ? nlohmann::json(*pad_token_id) : nlohmann::json();
  write_rope(rope, json);
  write_layer_kinds(*this, layout, json);
  json.erase("gradient_checkpointing");  // a way to train, not a property of the weights
  for (const char* dtype : {"torch_dtype", "dtype"}) json.erase(dtype);  // each tensor in the file has its own
  write_sequence_head(head, json);
  return json.dump(2) + "\n";
}

template <typename Family>
void RotaryConfig<Family>::check(const std::string& where) const {
  const RotaryLayout& layout = rotary_layout_of<Family>();
  const ConfigChecks checks(where);
  for (const ConfigChecks::Field& field : {ConfigChecks::Field{"hidden_size", hidden_size},
                                           {"intermediate_size", intermediate_size},
                                           {"max_position_embeddings", max_position_embeddings}}) {
    checks.positive(field);
  }
  checks.layers({"num_hidden_layers", num_hidden_layers});
  checks.vocabulary(vocab_size, pad_token_id);
  checks.labels(head);
  check_heads(*this, layout, checks);
  check_layer_kinds(*this, layout, checks);
}

template struct RotaryConfig<Llama>;
template struct RotaryConfig<Qwen2>;
template struct RotaryConfig<Qwen3>;
template struct RotaryConfig<Mistral>;
template struct RotaryConfig<SmolLM3>;

}  // namespace lockstep
