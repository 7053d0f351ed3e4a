#include "lockstep/detail/models/bert_config.h"
#include "lockstep/models/pretrained_model_bodies.h"

namespace lockstep {

WeightRules weight_rules(const BertConfig& config, const std::string& architecture) {
  WeightRules rules;
  rules.architecture = architecture;
  rules.vocab_size = config.vocab_size;
  rules.base_prefix = "bert";
  const bool predicts_words = architecture == "BertForMaskedLM";
  if (predicts_words && config.tie_word_embeddings) {
    rules.tied.emplace_back("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight");
  }
  if (predicts_words) rules.tied.emplace_back("cls.predictions.decoder.bias", "cls.predictions.bias");
  if (predicts_words && !config.tie_word_embeddings) {
    // Files of transformers 4 have one of the two names, because there both were one tensor.
    rules.tied.emplace_back("cls.predictions.bias", "cls.predictions.decoder.bias");
  }
  rules.is_ignored = [has_pooler = !predicts_words](const std::string& name) {
    // A table of positions that older versions saved; and the pooler, if this model has no pooler.
    return name.find("embeddings.position_ids") != std::string::npos ||
           (!has_pooler && name.find("pooler.") != std::string::npos);
  };
  rules.initialize = [config](const std::string& name, at::Tensor& parameter) {
    initialize_transformer_parameter(name, parameter, config.initializer_range);
    const bool is_words = name.find("word_embeddings.weight") != std::string::npos;
    if (is_words && config.pad_token_id) parameter.select(0, *config.pad_token_id).zero_();
  };
  return rules;
}

ParameterCount parameter_count(const BertConfig& config) {
  const double hidden = static_cast<double>(config.hidden_size);
  const double words = static_cast<double>(config.vocab_size + config.max_position_embeddings + config.type_vocab_size);
  const double layer = hidden * (4 * hidden + 2 * static_cast<double>(config.intermediate_size));
  return {hidden * words + static_cast<double>(config.num_hidden_layers) * layer,
          "vocab_size, max_position_embeddings, hidden_size, intermediate_size, num_hidden_layers"};
}

}  // namespace lockstep
