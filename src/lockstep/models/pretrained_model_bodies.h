#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/detail/models/bert_config.h"
#include "lockstep/detail/models/gpt2_config.h"
#include "lockstep/detail/models/pretrained_model.h"
#include "lockstep/models/model_memory.h"
#include "lockstep/models/tied_weights.h"
#include "lockstep/models/token_batch.h"

// The bodies of the templates in pretrained_model.h. The source of each model includes them and instantiates its own
// class.
namespace lockstep {

/// The rules for reading weights of one class of BERT. @param architecture  name of the class
WeightRules weight_rules(const BertConfig& config, const std::string& architecture);
/// The rules for reading weights of one class of GPT-2.
WeightRules weight_rules(const GPT2Config& config, const std::string& architecture);

ParameterCount parameter_count(const BertConfig& config);
ParameterCount parameter_count(const GPT2Config& config);

/// The configuration in `folder`, changed according to `options`.
/// @throws Error  if it does not fit this host's memory, or the tokenizer
template <typename Config>
Config config_for(const std::string& folder, const LoadOptions& options) {
  Config config = Config::from_file(folder);
  require_memory_for(parameter_count(config), folder + "/config.json");
  check_tokenizer_size(config.vocab_size, folder, options);
  if (options.num_labels > 0) config.head.set_num_labels(options.num_labels);
  if (!options.labels.empty()) config.head.labels = options.labels;
  if (!options.problem_type.empty()) config.head.problem_type = parse_problem_type(options.problem_type);
  config.gradient_checkpointing = config.gradient_checkpointing || options.gradient_checkpointing;
  return config;
}

template <typename Impl, typename Config, typename Base>
Loaded<Impl> PretrainedModule<Impl, Config, Base>::from_pretrained(const std::string& folder,
                                                                   const LoadOptions& options) {
  auto config = config_for<Config>(folder, options);
  const std::string untied = weights_to_untie(weight_rules(config, Impl::kArchitecture), folder);
  if (!untied.empty()) config.tie_word_embeddings = false;
  auto model = build_model(folder, [&] { return std::make_shared<Impl>(config, InitialWeights::Unset); });
  LoadReport report = load_weights(*model, weight_rules(config, Impl::kArchitecture), folder, options);
  report.untied = untied + report.untied;
  return {std::move(model), std::move(report)};
}

template <typename Impl, typename Config, typename Base>
void PretrainedModule<Impl, Config, Base>::save_pretrained(const std::string& folder,
                                                           std::uint64_t max_shard_bytes) const {
  lockstep::save_pretrained(*this, config_.to_json(Impl::kArchitecture), folder, max_shard_bytes);
}

template <typename Impl, typename Config, typename Base>
void PretrainedModule<Impl, Config, Base>::fill(InitialWeights weights) {
  if (weights == InitialWeights::Unset) return;
  initialize_parameters(*this, weight_rules(config_, Impl::kArchitecture).initialize);
}

template <typename Impl, typename Config>
std::vector<InputField> PretrainedTextModel<Impl, Config>::inputs() const {
  const std::vector<std::int64_t> of_tokens{-1, -1};
  return {{"input_ids", at::kLong, of_tokens},
          {"attention_mask", at::kLong, of_tokens},
          {"labels", at::kLong, Impl::kScoresEachToken ? of_tokens : std::vector<std::int64_t>{-1}}};
}

template <typename Impl, typename Config>
at::Tensor PretrainedTextModel<Impl, Config>::forward_batch(const Batch& batch) {
  return static_cast<Impl&>(*this).forward(token_inputs_of(batch, Impl::kArchitecture));
}

template <typename Impl, typename Config>
std::shared_ptr<Model> PretrainedTextModel<Impl, Config>::make_alike() const {
  return std::make_shared<Impl>(this->config(), InitialWeights::Unset);
}

}  // namespace lockstep
