#include "lockstep/detail/models/encoder_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lockstep/models/config_checks.h"
#include "lockstep/models/encoders/encoder_layout.h"
#include "lockstep/models/layers/relative_buckets.h"

namespace lockstep {

template <>
EncoderConfig<Roberta>::EncoderConfig() {
  vocab_size = 50265;
  pad_token_id = 1;
}

template <>
EncoderConfig<DistilBert>::EncoderConfig() {
  num_hidden_layers = 6;
  classifier_dropout = 0.2;
}

template <>
EncoderConfig<Electra>::EncoderConfig() {
  embedding_size = 128;
  hidden_size = 256;
  num_attention_heads = 4;
  intermediate_size = 1024;
}

template <>
EncoderConfig<MPNet>::EncoderConfig() {
  vocab_size = 30527;
  pad_token_id = 1;
}

namespace {

// What only one family has.
template <typename Family>
void read_own_settings(const ConfigFile& /*file*/, EncoderConfig<Family>& /*config*/) {}
template <typename Family>
void write_own_settings(const EncoderConfig<Family>& config, nlohmann::json& json) {
  json["type_vocab_size"] = config.type_vocab_size;
  json["layer_norm_eps"] = config.layer_norm_eps;
}

void read_own_settings(const ConfigFile& file, DistilBertConfig& config) {
  config.layer_norm_eps = DistilBertConfig().layer_norm_eps;  // Hugging Face's class has no other
  config.has_sinusoidal_positions = file.boolean({"sinusoidal_pos_embds"}, false);
}
void write_own_settings(const DistilBertConfig& config, nlohmann::json& json) {
  json["sinusoidal_pos_embds"] = config.has_sinusoidal_positions;
}

void read_own_settings(const ConfigFile& file, ElectraConfig& config) {
  config.embedding_size = file.integer({"embedding_size"}, config.embedding_size, 1, ConfigFile::kMaxSize);
}
void write_own_settings(const ElectraConfig& config, nlohmann::json& json) {
  json["type_vocab_size"] = config.type_vocab_size;
  json["layer_norm_eps"] = config.layer_norm_eps;
  json["embedding_size"] = config.embedding_size;
}

void read_own_settings(const ConfigFile& file, MPNetConfig& config) {
  file.require("relative_attention_num_buckets", {std::to_string(kRelativeBuckets)});
  config.classifier_dropout.reset();  // Hugging Face's class has hidden_dropout_prob there
}
void write_own_settings(const MPNetConfig& config, nlohmann::json& json) {
  json["layer_norm_eps"] = config.layer_norm_eps;
  json["relative_attention_num_buckets"] = kRelativeBuckets;
  json.erase("classifier_dropout");
}

// Hugging Face's MPNet has one id of padding, whatever the file says.
constexpr std::int64_t kMPNetPadding = 1;

}  // namespace

template <typename Family>
EncoderConfig<Family> EncoderConfig<Family>::from_file(const std::string& path) {
  const EncoderLayout& layout = layout_of<Family>();
  const ConfigFile file(path);
  refuse_unsupported_encoder(file, layout.name);
  EncoderConfig config;
  read_encoder_json(file, layout.json, config);
  read_own_settings(file, config);
  config.check(file.path());
  return config;
}

template <typename Family>
std::string EncoderConfig<Family>::to_json(const std::string& architecture) const {
  const EncoderLayout& layout = layout_of<Family>();
  nlohmann::json json = encoder_json(*this, layout.json, layout.name, architecture);
  write_own_settings(*this, json);
  return json.dump(2) + "\n";
}

template <typename Family>
void EncoderConfig<Family>::check(const std::string& where) const {
  BertConfig::check(where);
  if (!layout_of<Family>().counts_positions_from_padding) return;
  const ConfigChecks checks(where);
  if (!pad_token_id) checks.refuse("pad_token_id", "is missing", "give the tokenizer's id of padding");
  if (std::string(layout_of<Family>().name) == "mpnet" && *pad_token_id != kMPNetPadding) {
    checks.refuse("pad_token_id", fmt::format("is {}", *pad_token_id), "MPNet's is 1");
  }
  if (max_positions() < 1) {
    checks.refuse("max_position_embeddings",
                  fmt::format("is {}, but the first {} belong to padding", max_position_embeddings, *pad_token_id + 1),
                  "give more");
  }
}

template <typename Family>
std::int64_t EncoderConfig<Family>::max_positions() const {
  const bool keeps_some = layout_of<Family>().counts_positions_from_padding;
  return max_position_embeddings - (keeps_some ? pad_token_id.value_or(0) + 1 : 0);
}

template struct EncoderConfig<Roberta>;
template struct EncoderConfig<DistilBert>;
template struct EncoderConfig<Electra>;
template struct EncoderConfig<MPNet>;

}  // namespace lockstep
