#pragma once

#include <nlohmann/json_fwd.hpp>

#include "lockstep/detail/models/bert_config.h"
#include "lockstep/detail/models/config_file.h"

namespace lockstep {

/// What a config.json calls the sizes and rates of an encoder.
struct BertJsonKeys {
  const char* hidden_size;
  const char* layers;
  const char* heads;
  const char* intermediate_size;
  const char* activation;
  const char* dropout;
  const char* attention_dropout;
  const char* classifier_dropout;
};

constexpr BertJsonKeys kBertJsonKeys{
    "hidden_size", "num_hidden_layers",   "num_attention_heads",          "intermediate_size",
    "hidden_act",  "hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"};

/// Refuses settings that change what an encoder computes, and are supported by none of them. @throws Error  naming them
void refuse_unsupported_encoder(const ConfigFile& file, const char* model_type);
/// Reads what all encoders have; `config` has the values of those that are missing.
void read_encoder_json(const ConfigFile& file, const BertJsonKeys& keys, BertConfig& config);
/// Writes it, over `config.source`, for a model of this type and class.
nlohmann::json encoder_json(const BertConfig& config, const BertJsonKeys& keys, const char* model_type,
                            const std::string& architecture);

}  // namespace lockstep
