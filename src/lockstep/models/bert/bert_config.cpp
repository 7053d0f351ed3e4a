#include "lockstep/detail/models/bert_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/detail/models/config_file.h"
#include "lockstep/models/bert/bert_json.h"
#include "lockstep/models/config_checks.h"

namespace lockstep {
namespace {

constexpr const char* kBertType = "bert";

}  // namespace

BertConfig BertConfig::from_file(const std::string& path) {
  const ConfigFile file(path);
  refuse_unsupported_encoder(file, kBertType);
  BertConfig c;
  read_encoder_json(file, kBertJsonKeys, c);
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
  nlohmann::json json = encoder_json(*this, kBertJsonKeys, kBertType, architecture);
  json["type_vocab_size"] = type_vocab_size;
  json["layer_norm_eps"] = layer_norm_eps;
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
