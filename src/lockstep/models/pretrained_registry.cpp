#include <ATen/ops/softmax.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/text/download_hint.h"
#include "lockstep/detail/models/config_file.h"
#include "lockstep/models/bert_heads.h"
#include "lockstep/models/encoder_models.h"
#include "lockstep/models/encoders/encoder_bodies.h"
#include "lockstep/models/gpt2.h"
#include "lockstep/models/pretrained_model_bodies.h"
#include "lockstep/models/registry.h"
#include "lockstep/models/rotary/rotary_bodies.h"
#include "lockstep/models/tied_weights.h"

namespace lockstep {
namespace {

const std::vector<std::string> kBertNames{"bert-tiny", "bert-mini", "bert-small", "bert-base"};
const std::vector<std::string> kGpt2Names{"gpt2", "gpt2-tiny", "gpt2-medium", "gpt2-large"};

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

template <typename Family, typename Visit>
bool visited_as_encoder(const Model& model, const Visit& visit) {
  return visited_as<EncoderForSequenceClassificationImpl<Family>>(model, visit) ||
         visited_as<EncoderForMaskedLMImpl<Family>>(model, visit);
}

template <typename Visit>
bool visited_as_rotary(const Model& model, const Visit& visit) {
  return visited_as<LlamaForCausalLMImpl>(model, visit) || visited_as<Qwen2ForCausalLMImpl>(model, visit) ||
         visited_as<Qwen3ForCausalLMImpl>(model, visit) || visited_as<MistralForCausalLMImpl>(model, visit) ||
         visited_as<SmolLM3ForCausalLMImpl>(model, visit);
}

// Calls `visit(module)` with the class of `model`; returns false if it is not a text model.
template <typename Visit>
bool visit_text_model(const Model& model, const Visit& visit) {
  return visited_as<BertForSequenceClassificationImpl>(model, visit) || visited_as<BertForMaskedLMImpl>(model, visit) ||
         visited_as<GPT2ForSequenceClassificationImpl>(model, visit) || visited_as<GPT2LMHeadModelImpl>(model, visit) ||
         visited_as_encoder<Roberta>(model, visit) || visited_as_encoder<DistilBert>(model, visit) ||
         visited_as_encoder<Electra>(model, visit) || visited_as_encoder<MPNet>(model, visit) ||
         visited_as_rotary(model, visit);
}

// Calls `visit(head)` with the labels and problem type of a text classifier.
template <typename Visit>
void visit_sequence_head(const Model& model, const Visit& visit) {
  visit_text_model(model, [&](const auto& typed) {
    using Typed = std::decay_t<decltype(typed)>;
    if constexpr (!Typed::kScoresEachToken) visit(typed.config().head);
  });
}

std::int64_t positions_of(const BertConfig& config) { return config.max_position_embeddings; }
std::int64_t positions_of(const GPT2Config& config) { return config.n_positions; }
std::int64_t positions_of(const RotarySettings& config) { return config.max_position_embeddings; }
template <typename Family>
std::int64_t positions_of(const EncoderConfig<Family>& config) {
  return config.max_positions();
}

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

// A class of models, as folders name it.
struct PretrainedClass {
  std::string type;
  TextTask task;
  Loaded<Model> (*load)(const std::string& folder, const LoadOptions& options);
  std::shared_ptr<Model> (*make)(const std::string& folder, bool gradient_checkpointing);
  std::string (*differing)(const std::string& folder);  // of its tied tensors
};

template <typename Module>
std::shared_ptr<Model> make_by_config(const std::string& folder, bool gradient_checkpointing) {
  auto config = std::decay_t<decltype(std::declval<Module>().config())>::from_file(folder);
  config.gradient_checkpointing = gradient_checkpointing;
  return std::make_shared<Module>(config);
}

template <typename Module>
std::string differing_of(const std::string& folder) {
  const auto config = std::decay_t<decltype(std::declval<Module>().config())>::from_file(folder);
  return tied_tensors_that_differ(weight_rules(config, Module::kArchitecture), folder);
}

template <typename Module>
PretrainedClass pretrained_class(const std::string& type, TextTask task) {
  return {type, task, load_as_model<Module>, make_by_config<Module>, differing_of<Module>};
}

template <typename Family>
void add_encoder(const std::string& type, std::vector<PretrainedClass>& classes) {
  classes.push_back(
      pretrained_class<EncoderForSequenceClassificationImpl<Family>>(type, TextTask::SequenceClassification));
  classes.push_back(pretrained_class<EncoderForMaskedLMImpl<Family>>(type, TextTask::MaskedLanguageModel));
}

template <typename Family>
void add_rotary(std::vector<PretrainedClass>& classes) {
  classes.push_back(
      pretrained_class<RotaryForCausalLMImpl<Family>>(rotary_layout_of<Family>().name, TextTask::CausalLanguageModel));
}

const std::vector<PretrainedClass>& pretrained_classes() {
  static const std::vector<PretrainedClass> all = [] {
    std::vector<PretrainedClass> classes{
        pretrained_class<BertForSequenceClassificationImpl>("bert", TextTask::SequenceClassification),
        pretrained_class<BertForMaskedLMImpl>("bert", TextTask::MaskedLanguageModel),
        pretrained_class<GPT2LMHeadModelImpl>("gpt2", TextTask::CausalLanguageModel),
        pretrained_class<GPT2ForSequenceClassificationImpl>("gpt2", TextTask::SequenceClassification)};
    add_encoder<Roberta>("roberta", classes);
    add_encoder<DistilBert>("distilbert", classes);
    add_encoder<Electra>("electra", classes);
    add_encoder<MPNet>("mpnet", classes);
    add_rotary<Llama>(classes);
    add_rotary<Qwen2>(classes);
    add_rotary<Qwen3>(classes);
    add_rotary<Mistral>(classes);
    add_rotary<SmolLM3>(classes);
    return classes;
  }();
  return all;
}

[[noreturn]] void refuse_type(const ConfigFile& config, const std::string& type) {
  config.refuse("model_type", "is \"" + type + "\", for which there is no such model",
                "bert, roberta, distilbert, electra and mpnet classify texts and predict masked words; gpt2 classifies "
                "texts and predicts the next token; llama, qwen2, qwen3, mistral and smollm3 predict the next token");
}

// The type is known, and another task is asked of it.
[[noreturn]] void refuse_task(const ConfigFile& config, const std::string& type, TextTask task) {
  if (task == TextTask::CausalLanguageModel) {
    config.refuse(
        "model_type", "is \"" + type + "\", which does not predict the next token",
        "it predicts masked words: give --mlm; gpt2, llama, qwen2, qwen3, mistral and smollm3 predict the next "
        "token");
  }
  if (task == TextTask::SequenceClassification) {
    config.refuse("model_type", "is \"" + type + "\", which predicts the next token and does not classify texts",
                  "give --task language-modeling; bert, roberta, distilbert, electra, mpnet and gpt2 classify texts");
  }
  config.refuse("model_type", "is \"" + type + "\", which predicts the next token, not masked words",
                "leave --mlm out; bert, roberta, distilbert, electra and mpnet predict masked words");
}

[[noreturn]] void refuse_name(const std::string& name, TextTask task) {
  std::vector<std::string> able;
  if (task != TextTask::CausalLanguageModel) able = kBertNames;
  if (task != TextTask::MaskedLanguageModel) able.insert(able.end(), kGpt2Names.begin(), kGpt2Names.end());
  const std::string fix = fmt::format(
      "name the folder of a model that was downloaded or trained, or one of {}, which begin with random weights",
      fmt::join(able, ", "));
  if (is_one_of(kBertNames, name))
    throw Error(name + " does not predict the next token", "--model", "for masked words give --mlm; else " + fix);
  if (is_one_of(kGpt2Names, name))
    throw Error(name + " does not predict masked words", "--model", "leave --mlm out; or " + fix);
  throw Error("there is no folder " + name + ", nor a model of that name that works on texts", "--model",
              download_hint(name) + fix);
}

}  // namespace

Loaded<Model> load_pretrained_model(const std::string& folder, TextTask task, const LoadOptions& options) {
  const ConfigFile config(folder);
  const std::string type = config.text({"model_type"}, "");
  for (const PretrainedClass& known : pretrained_classes()) {
    if (known.type == type && known.task == task) return known.load(folder, options);
  }
  require_known_model(folder);
  refuse_task(config, type, task);
}

std::shared_ptr<Model> make_model_of_folder(const std::string& folder, bool gradient_checkpointing) {
  const ConfigFile config(folder);
  const std::string type = config.text({"model_type"}, "");
  for (const PretrainedClass& known : pretrained_classes()) {
    if (known.type == type) return known.make(folder, gradient_checkpointing);
  }
  refuse_type(config, type);
}

void require_known_model(const std::string& config_path) {
  const ConfigFile config(config_path);
  const std::string type = config.text({"model_type"}, "");
  const auto& all = pretrained_classes();
  const bool is_known =
      std::any_of(all.begin(), all.end(), [&](const PretrainedClass& known) { return known.type == type; });
  if (!is_known) refuse_type(config, type);
}

bool predicts_next_token(const std::string& folder) {
  const std::string type = ConfigFile(folder).text({"model_type"}, "");
  const auto& all = pretrained_classes();
  return std::any_of(all.begin(), all.end(), [&](const PretrainedClass& known) {
    return known.type == type && known.task == TextTask::CausalLanguageModel;
  });
}

std::string tied_tensors_that_differ(const std::string& folder) {
  const std::string type = ConfigFile(folder).text({"model_type"}, "");
  for (const PretrainedClass& known : pretrained_classes()) {
    if (known.type == type && known.task != TextTask::SequenceClassification) return known.differing(folder);
  }
  return "";
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
  std::vector<std::string> labels;
  visit_sequence_head(model, [&](const SequenceHead& head) { labels = head.labels; });
  return labels;
}

at::Tensor label_scores_of(const Model& model, const at::Tensor& outputs) {
  std::optional<SequenceHead> head;
  visit_sequence_head(model, [&](const SequenceHead& of_model) { head = of_model; });
  return head ? shown_scores(*head, outputs) : at::softmax(outputs, -1);
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
