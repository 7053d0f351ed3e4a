#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/models/bert_heads.h"
#include "lockstep/models/config_file.h"
#include "lockstep/models/gpt2.h"
#include "lockstep/models/registry.h"

namespace lockstep {
namespace {

template <typename Module>
Loaded<Model> load_as_model(const std::string& folder, const LoadOptions& options) {
  auto loaded = Module::from_pretrained(folder, options);
  return {std::move(loaded.model), std::move(loaded.report)};
}

template <typename Module>
bool saved_as(const Model& model, const std::string& folder) {
  const auto* typed = dynamic_cast<const Module*>(&model);
  if (typed != nullptr) typed->save_pretrained(folder);
  return typed != nullptr;
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

void save_model(const Model& model, const std::string& folder) {
  const bool is_saved =
      saved_as<BertForSequenceClassificationImpl>(model, folder) || saved_as<BertForMaskedLMImpl>(model, folder) ||
      saved_as<GPT2ForSequenceClassificationImpl>(model, folder) || saved_as<GPT2LMHeadModelImpl>(model, folder);
  if (!is_saved) write_weight_files(folder, state_of(model));
}

}  // namespace lockstep
