// `lockstep verify` of a model by name or of a folder.
#include <torch/utils.h>

#include <algorithm>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/text/download_hint.h"
#include "lockstep/models/registry.h"
#include "tools/lockstep/flags/model_folder.h"
#include "tools/lockstep/verify/verify_flags.h"
#include "tools/lockstep/verify/verify_texts.h"
#include "tools/models/array_model.h"
#include "tools/models/verify_data.h"

namespace lockstep {
namespace {

// The model, and the texts that it is verified on, if there are some.
struct Subject {
  std::shared_ptr<Model> model;
  std::unique_ptr<VerificationTexts> texts;
};

VerificationTexts::Source text_source(const VerifyFlags& flags) {
  VerificationTexts::Source source;
  source.path = flags.data;
  source.tokenizer = flags.tokenizer;
  source.text = flags.text;
  source.label = flags.label;
  source.max_length = flags.sequence_length;
  return source;
}

Subject open_folder(const VerifyFlags& flags) {
  const std::string task = task_of_folder(flags.model);
  if (task == "image-classification" || task == "tabular-classification") {
    return {load_array_model(flags.model).model, nullptr};
  }
  if (task == "sentence-embedding") {
    throw UsageError("the model computes vectors from texts and has no loss of its own to verify", flags.model,
                     "name the folder of a classifier or a language model");
  }
  const TextTask text_task = task == "text-classification"      ? TextTask::SequenceClassification
                             : predicts_next_token(flags.model) ? TextTask::CausalLanguageModel
                                                                : TextTask::MaskedLanguageModel;
  const auto model = load_pretrained_model(flags.model, text_task).model;
  if (flags.data.empty()) return {model, nullptr};
  VerificationTexts::Source source = text_source(flags);
  if (source.tokenizer.empty()) source.tokenizer = flags.model;
  source.labels = labels_of(*model);
  source.task = text_task;
  return {model, std::make_unique<VerificationTexts>(source)};
}

Subject make_by_name(const VerifyFlags& flags) {
  const bool is_gpt2 = flags.model.rfind("gpt2", 0) == 0;
  const bool takes_texts = is_gpt2 || flags.model.rfind("bert-", 0) == 0;
  if (!takes_texts || flags.data.empty()) {
    if (flags.tokenizer.empty()) return {make_model(flags.model), nullptr};
    throw UsageError("--tokenizer is for texts, but there are no texts", "command line",
                     "name a model for texts, and a file with --data");
  }
  if (flags.tokenizer.empty()) {
    throw UsageError("the texts of --data need a tokenizer", "command line", "name its folder with --tokenizer");
  }
  VerificationTexts::Source source = text_source(flags);
  source.task = is_gpt2 ? TextTask::CausalLanguageModel : TextTask::SequenceClassification;
  auto texts = std::make_unique<VerificationTexts>(source);
  return {make_model(flags.model, texts->model_options()), std::move(texts)};
}

Subject open_subject(const VerifyFlags& flags) {
  if (std::filesystem::is_directory(flags.model)) return open_folder(flags);
  const auto& models = registered_models();
  const bool is_known = flags.model == "mlp-kdd" || std::any_of(models.begin(), models.end(), [&](const auto& each) {
                          return each.name == flags.model;
                        });
  if (is_known) return make_by_name(flags);
  std::string names;
  for (const ModelInfo& each : models) names += (names.empty() ? "" : ", ") + each.name;
  throw UsageError("there is no folder or file " + flags.model + ", nor a model of that name", "--model",
                   download_hint(flags.model) + "name the folder of a model, a TorchScript file, or one of " + names);
}

}  // namespace

Verification verify_model(const VerifyFlags& flags) {
  torch::manual_seed(flags.seed);
  const Subject subject = open_subject(flags);
  if (!flags.input_shape.empty()) {
    throw UsageError("--input-shape cannot be combined with --model " + flags.model + ", whose inputs are known",
                     "command line", "leave --input-shape out: it is for TorchScript files");
  }
  if (flags.sequence_length > 0 && subject.model->input_kind() != InputKind::Text) {
    throw UsageError("--seq cannot be combined with --model " + flags.model + ", which takes no texts", "command line",
                     "leave --seq out");
  }
  subject.model->to(flags.is_double ? torch::kDouble : torch::kFloat);
  const auto dataset = subject.texts || flags.data.empty() ? nullptr : verification_data(*subject.model, flags.data);
  std::vector<Batch> batches;
  for (int step = 0; step < flags.steps; ++step) {
    RandomBatchOptions random;
    random.size = flags.batch;
    random.sequence_length = flags.sequence_length;
    random.seed = flags.seed + static_cast<std::uint64_t>(step);
    Batch batch = subject.texts ? subject.texts->batch(flags.batch, step)
                  : dataset     ? verification_batch(*dataset, flags.data, flags.batch, step)
                                : subject.model->random_batch(random);
    for (auto& [name, tensor] : batch) {
      if (tensor.is_floating_point() && flags.is_double) tensor = tensor.to(torch::kDouble);
    }
    batches.push_back(batch);
  }
  const auto loss = [](auto& net, const Batch& part) { return net.module()->loss(net(part), part); };
  return verify(subject.model, batches, loss, flags.options);
}

}  // namespace lockstep
