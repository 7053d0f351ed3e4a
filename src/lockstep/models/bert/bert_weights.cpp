#include "lockstep/models/bert/bert_weights.h"
#include "lockstep/models/model_memory.h"

namespace lockstep {

WeightRules bert_weight_rules(const BertConfig& config, const std::string& architecture) {
  WeightRules rules;
  rules.architecture = architecture;
  rules.vocab_size = config.vocab_size;
  rules.base_prefix = "bert";
  const bool has_pooler = architecture != "BertForMaskedLM";
  rules.is_ignored = [has_pooler](const std::string& name) {
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

BertConfig bert_config_for(const std::string& folder, const LoadOptions& options) {
  BertConfig config = BertConfig::from_file(folder);
  const double hidden = static_cast<double>(config.hidden_size);
  const double words = static_cast<double>(config.vocab_size + config.max_position_embeddings + config.type_vocab_size);
  const double layer = hidden * (4 * hidden + 2 * static_cast<double>(config.intermediate_size));
  require_memory_for(hidden * words + static_cast<double>(config.num_hidden_layers) * layer, folder + "/config.json",
                     "vocab_size, max_position_embeddings, hidden_size, intermediate_size, num_hidden_layers");
  check_tokenizer_size(config.vocab_size, folder, options);
  if (options.num_labels > 0) config.head.set_num_labels(options.num_labels);
  if (!options.labels.empty()) config.head.labels = options.labels;
  config.gradient_checkpointing = config.gradient_checkpointing || options.gradient_checkpointing;
  return config;
}

}  // namespace lockstep
