#include "tools/lockstep/verify/verify_texts.h"

#include <fmt/format.h>

#include <set>

#include "lockstep/base/error.h"
#include "lockstep/data/language_modeling_collator.h"
#include "lockstep/data/padding_collator.h"
#include "lockstep/data/text/tokenizer.h"
#include "lockstep/data/text_file.h"
#include "tools/lockstep/flags/tokenizer_flag.h"
#include "tools/lockstep/train/text_columns.h"
#include "tools/lockstep/train/training_task.h"

namespace lockstep {
namespace {

constexpr std::int64_t kDefaultTextLength = 64;

std::int64_t count_labels(const TextDataset& rows) {
  std::set<std::int64_t> labels;
  for (const auto& [name, id] : rows.labels()) labels.insert(id);
  return static_cast<std::int64_t>(labels.size());
}

}  // namespace

VerificationTexts::VerificationTexts(const Source& source) : path_(source.path) {
  const bool is_classifier = source.task == TextTask::SequenceClassification;
  TextFileOptions options;
  options.texts = text_columns_of_file(
      source.path, source.text.empty() ? std::vector<std::string>{} : std::vector<std::string>{source.text});
  if (is_classifier) options.label = source.label.empty() ? "label" : source.label;
  for (const std::string& label : source.labels) {
    if (is_classifier) options.labels.emplace(label, static_cast<std::int64_t>(options.labels.size()));
  }
  const auto rows = open_text_file(source.path, options);
  require_tokenizer_folder(source.tokenizer);
  Tokenizer tokenizer = load_tokenizer(source.tokenizer);
  if (!tokenizer.special_tokens().pad && tokenizer.special_tokens().eos) {
    tokenizer.set_pad_token(*tokenizer.special_tokens().eos);
  }
  model_options_.vocab_size = tokenizer.vocab_size();
  model_options_.pad_token_id = tokenizer.pad_id();
  if (is_classifier) model_options_.num_labels = count_labels(*rows);
  TokenizeOptions tokens;
  tokens.truncation = true;
  tokens.max_length = source.max_length > 0 ? source.max_length : kDefaultTextLength;
  dataset_ = tokenize(*rows, tokenizer, tokens);
  if (is_classifier) {
    collate_ = DataCollatorWithPadding(tokenizer);
  } else {
    LanguageModelingOptions masking;
    masking.mlm = source.task == TextTask::MaskedLanguageModel;
    collate_ = DataCollatorForLanguageModeling(tokenizer, masking);
  }
}

Batch VerificationTexts::batch(std::int64_t size, int step) const {
  const std::int64_t first = step * size;
  if (first + size > dataset_->size()) {
    throw Error(
        fmt::format("step {} of {} samples needs more samples than the {} available", step + 1, size, dataset_->size()),
        path_, "make --batch or --steps smaller");
  }
  std::vector<Example> examples;
  for (std::int64_t i = first; i < first + size; ++i) examples.push_back(dataset_->get(i));
  return collate_(std::move(examples));
}

}  // namespace lockstep
