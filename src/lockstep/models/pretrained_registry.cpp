#include <ATen/ops/softmax.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/models/bert_heads.h"
#include "lockstep/models/config_file.h"
#include "lockstep/models/gpt2.h"
#include "lockstep/models/registry.h"

namespace lockstep {
namespace {

const std::vector<std::string> kBertNames{"bert-tiny", "bert-mini", "bert-small", "bert-base"};
const std::vector<std::string> kGpt2Names{"gpt2", "gpt2-tiny"};

template <typename Module>
Loaded<Model> load_as_model(const std::string& folder, const LoadOptions& options) {
  auto loaded = Module::from_pretrained(folder, options);
  return {std::move(loaded.model), std::move(loaded.report)};
}

template <typename Module, typename Visit>
bool visited_as(const Model& model, const Visit& visit) {
  const auto* typed = dynamic_cast<const Module*>(&model);
  if (typed != nullptr) visit(*typed);
  return typed != nullptr;
}

// Calls `visit(module)` with the class of `model`; returns false if it is not a text model.
template <typename Visit>
bool visit_text_model(const Model& model, const Visit& visit) {
  return visited_as<BertForSequenceClassificationImpl>(model, visit) || visited_as<BertForMaskedLMImpl>(model, visit) ||
         visited_as<GPT2ForSequenceClassificationImpl>(model, visit) || visited_as<GPT2LMHeadModelImpl>(model, visit);
}

std::int64_t positions_of(const BertConfig& config) { return config.max_position_embeddings; }
std::int64_t positions_of(const GPT2Config& config) { return config.n_positions; }

bool is_one_of(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

template <typename Config>
Config set_by(const LoadOptions& options, std::optional<std::int64_t> pad_token_id, Config config) {
  if (options.tokenizer_size > 0) config.vocab_size = options.tokenizer_size;
  config.pad_token_id = pad_token_id;
  if (options.num_labels > 0) config.head.set_num_labels(options.num_labels);
  if (!options.labels.empty()) config.head.labels = options.labels;
  if (!options.problem_type.empty()) config.head.problem_type = parse_problem_type(options.problem_type);
  config.gradient_checkpointing = options.gradient_checkpointing;
  return config;
}

[[noreturn]] void refuse_name(const std::string& name, TextTask task) {
  std::vector<std::string> able;
  if (task != TextTask::CausalLanguageModel) able = kBertNames;
  if (task != TextTask::MaskedLanguageModel) able.insert(able.end(), kGpt2Names.begin(), kGpt2Names.end());
  const std::string fix = fmt::format(
      "name the folder of a model that was downloaded or trained, or one of {}, which "
      "begin with random weights",
      fmt::join(able, ", "));
  if (is_one_of(kBertNames, name)) throw Error(name + " does not predict the next token", "--model", fix);
  if (is_one_of(kGpt2Names, name)) throw Error(name + " does not predict masked words", "--model", fix);
  throw Error("there is no folder " + name + ", and no model of that name that works on texts", "--model", fix);
}

}  // namespace

Loaded<Model> load_pretrained_model(const std::string& folder, TextTask task, const LoadOptions& options) {
  const ConfigFile config(folder);
  const std::string type = config.text({"model_type"}, "");
  if (type == "bert" && task == TextTask::SequenceClassification) {
    return load_as_model<BertForSequenceClassificationImpl>(folder, options);
  }
  if (type == "bert" && task == TextTask::MaskedLanguageModel) {
    return load_as_model<BertForMaskedLMImpl>(folder, options);
  }
  if (type == "gpt2" && task == TextTask::SequenceClassification) {
    return load_as_model<GPT2ForSequenceClassificationImpl>(folder, options);
  }
  if (type == "gpt2" && task == TextTask::CausalLanguageModel) {
    return load_as_model<GPT2LMHeadModelImpl>(folder, options);
  }
  config.refuse("model_type", "is \"" + type + "\", for which there is no such model",
                "bert classifies texts and predicts masked words; gpt2 classifies texts and predicts the next token");
}

Loaded<Model> load_or_make_model(const std::string& folder_or_name, TextTask task, const LoadOptions& options,
                                 std::optional<std::int64_t> pad_token_id) {
  if (std::filesystem::is_directory(folder_or_name)) return load_pretrained_model(folder_or_name, task, options);
  if (is_one_of(kBertNames, folder_or_name) && task != TextTask::CausalLanguageModel) {
    const auto config = set_by(options, pad_token_id, bert_config_of_size(folder_or_name.substr(5)));
    if (task == TextTask::MaskedLanguageModel) return {std::make_shared<BertForMaskedLMImpl>(config), {}};
    return {std::make_shared<BertForSequenceClassificationImpl>(config), {}};
  }
  if (is_one_of(kGpt2Names, folder_or_name) && task != TextTask::MaskedLanguageModel) {
    const auto config = set_by(options, pad_token_id, gpt2_config_of_name(folder_or_name));
    if (task == TextTask::CausalLanguageModel) return {std::make_shared<GPT2LMHeadModelImpl>(config), {}};
    return {std::make_shared<GPT2ForSequenceClassificationImpl>(config), {}};
  }
  refuse_name(folder_or_name, task);
}

std::int64_t max_positions_of(const Model& model) {
  std::int64_t positions = 0;
  visit_text_model(model, [&](const auto& typed) { positions = positions_of(typed.config()); });
  return positions;
}

std::vector<std::string> labels_of(const Model& model) {
  if (const auto* bert = dynamic_cast<const BertForSequenceClassificationImpl*>(&model)) {
    return bert->config().head.labels;
  }
  if (const auto* gpt2 = dynamic_cast<const GPT2ForSequenceClassificationImpl*>(&model)) {
    return gpt2->config().head.labels;
  }
  return {};
}

at::Tensor label_scores_of(const Model& model, const at::Tensor& outputs) {
  if (const auto* bert = dynamic_cast<const BertForSequenceClassificationImpl*>(&model)) {
    return shown_scores(bert->config().head, outputs);
  }
  if (const auto* gpt2 = dynamic_cast<const GPT2ForSequenceClassificationImpl*>(&model)) {
    return shown_scores(gpt2->config().head, outputs);
  }
  return at::softmax(outputs, -1);
}

std::string config_json_of(const Model& model) {
  std::string json;
  visit_text_model(model, [&](const auto& typed) { json = typed.config().to_json(typed.kArchitecture); });
  return json;
}

void save_model(const Model& model, const std::string& folder) {
  const bool is_saved = visit_text_model(model, [&](const auto& typed) { typed.save_pretrained(folder); });
  if (!is_saved) write_weight_files(folder, state_of(model));
}

}  // namespace lockstep
