// Classification of texts and of pairs of texts.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/data/padding_collator.h"
#include "lockstep/data/text_file.h"
#include "lockstep/data/tokenized_dataset.h"
#include "lockstep/models/bert_heads.h"
#include "lockstep/models/gpt2.h"
#include "lockstep/models/registry.h"
#include "tools/lockstep/training_task.h"

namespace lockstep {
namespace {

constexpr std::int64_t kLongestByDefault = 512;

bool has_column(const std::vector<std::string>& columns, const std::string& name) {
  return std::find(columns.begin(), columns.end(), name) != columns.end();
}

// The columns that the flags name, or the usual ones.
TextFileOptions text_columns_of(const TaskFlags& flags, const std::string& path) {
  const std::vector<std::string> columns = columns_of_file(path);
  TextFileOptions options;
  options.texts = flags.text_columns;
  const std::vector<std::vector<std::string>> usual{
      {"text"}, {"sentence1", "sentence2"}, {"premise", "hypothesis"}, {"sentence"}, {"review"}, {"content"}};
  for (const auto& names : usual) {
    const bool all =
        std::all_of(names.begin(), names.end(), [&](const auto& name) { return has_column(columns, name); });
    if (options.texts.empty() && all) options.texts = names;
  }
  if (options.texts.empty()) {
    throw UsageError(fmt::format("which column holds the text? There are {}", fmt::join(columns, ", ")), path,
                     "give --text-column, or two of a pair");
  }
  options.label = flags.label_column;
  for (const char* name : {"label", "labels"}) {
    if (options.label.empty() && has_column(columns, name)) options.label = name;
  }
  if (options.label.empty()) {
    throw UsageError(fmt::format("which column holds the label? There are {}", fmt::join(columns, ", ")), path,
                     "give --label-column");
  }
  return options;
}

std::map<std::string, std::int64_t> numbered(const std::vector<std::string>& labels) {
  std::map<std::string, std::int64_t> numbers;
  for (std::size_t i = 0; i < labels.size(); ++i) numbers[labels[i]] = static_cast<std::int64_t>(i);
  return numbers;
}

std::vector<std::string> names_of(const std::map<std::string, std::int64_t>& labels) {
  std::vector<std::string> names(labels.size());
  for (const auto& [name, number] : labels) names.at(static_cast<std::size_t>(number)) = name;
  return names;
}

std::shared_ptr<const TextDataset> read_rows(const TaskFlags& flags, const std::string& path, std::int64_t samples,
                                             const std::map<std::string, std::int64_t>& labels, std::uint64_t seed) {
  TextFileOptions options = text_columns_of(flags, path);
  options.labels = labels;
  auto rows = open_text_file(path, options);
  return samples > 0 && samples < rows->size() ? sample_rows(rows, samples, seed) : rows;
}

struct NamedClassifier {
  std::shared_ptr<Model> model;
  std::int64_t positions;
  std::string notice;
};

NamedClassifier classifier_from_folder(const TaskFlags& flags, const TrainingArguments& args,
                                       const std::vector<std::string>& labels) {
  LoadOptions options;
  options.labels = labels;
  options.ignore_mismatched_sizes = flags.ignore_mismatched_sizes;
  options.gradient_checkpointing = args.gradient_checkpointing;
  auto loaded = load_pretrained_model(flags.model, TextTask::SequenceClassification, options);
  std::int64_t positions = kLongestByDefault;
  if (const auto* bert = dynamic_cast<const BertForSequenceClassificationImpl*>(loaded.model.get())) {
    positions = bert->config().max_position_embeddings;
  } else if (const auto* gpt2 = dynamic_cast<const GPT2ForSequenceClassificationImpl*>(loaded.model.get())) {
    positions = gpt2->config().n_positions;
  }
  return {loaded.model, positions, loaded.report.text()};
}

NamedClassifier classifier_by_name(const TaskFlags& flags, const TrainingArguments& args, const Tokenizer& tokenizer,
                                   const std::vector<std::string>& labels) {
  if (flags.model == "gpt2") {
    Gpt2Config config;
    config.vocab_size = tokenizer.vocab_size();
    config.pad_token_id = tokenizer.pad_id();
    config.head.labels = labels;
    config.gradient_checkpointing = args.gradient_checkpointing;
    return {std::make_shared<GPT2ForSequenceClassificationImpl>(config), config.n_positions, ""};
  }
  if (flags.model.rfind("bert-", 0) != 0) {
    throw UsageError("--model " + flags.model + " does not classify texts", "command line",
                     "give a folder, or bert-tiny, bert-mini, bert-small, bert-base or gpt2");
  }
  BertConfig config = bert_config_of_size(flags.model.substr(5));
  config.vocab_size = tokenizer.vocab_size();
  config.pad_token_id = tokenizer.pad_id();
  config.head.labels = labels;
  config.gradient_checkpointing = args.gradient_checkpointing;
  return {std::make_shared<BertForSequenceClassificationImpl>(config), config.max_position_embeddings, ""};
}

std::shared_ptr<const TokenizedDataset> tokenized(const TextDataset& rows, const Tokenizer& tokenizer,
                                                  std::int64_t max_length) {
  TokenizeOptions options;
  options.truncation = true;
  options.max_length = max_length;
  return tokenize(rows, tokenizer, options);
}

}  // namespace

TrainingTask make_text_classification_task(const TaskFlags& flags, const TrainingArguments& args) {
  const auto seed = static_cast<std::uint64_t>(args.seed);
  Tokenizer tokenizer = tokenizer_of_flags(flags);
  if (!tokenizer.pad_id() && tokenizer.special_tokens().eos) tokenizer.set_pad_token(*tokenizer.special_tokens().eos);
  const bool is_folder = std::filesystem::is_directory(flags.model);

  std::shared_ptr<const TextDataset> train_rows;
  std::vector<std::string> labels;  // empty: those of the model's folder
  if (!flags.train_file.empty()) {
    train_rows = read_rows(flags, flags.train_file, flags.max_train_samples, {}, seed);
    labels = names_of(train_rows->labels());
  }
  if (labels.empty() && !is_folder) {
    throw UsageError("--model " + flags.model + " has no labels of its own", "command line",
                     "give the folder of a trained model");
  }
  const NamedClassifier classifier =
      is_folder ? classifier_from_folder(flags, args, labels) : classifier_by_name(flags, args, tokenizer, labels);
  TrainingTask task;
  task.notice = classifier.notice;
  task.model = std::make_shared<ModelAdapter>(classifier.model, tokenizer, args.gradient_checkpointing);
  const std::int64_t longest = std::min(classifier.positions, kLongestByDefault);
  const std::int64_t max_length = flags.max_length > 0 ? flags.max_length : longest;
  if (max_length > classifier.positions) {
    throw UsageError(fmt::format("--max-length {}, and the model has {} positions", max_length, classifier.positions),
                     "command line", "take no more than the model has");
  }
  if (train_rows) {
    const auto dataset = tokenized(*train_rows, tokenizer, max_length);
    if (args.group_by_length) task.lengths = dataset->lengths();
    task.train = dataset;
  }
  if (!flags.validation_file.empty()) {
    const auto rows =
        read_rows(flags, flags.validation_file, flags.max_eval_samples, numbered(task.model->labels()), seed);
    task.eval = tokenized(*rows, tokenizer, max_length);
  }
  task.collate = DataCollatorWithPadding(tokenizer);
  task.metrics = metrics_of_flags(flags, static_cast<std::int64_t>(task.model->labels().size()));
  return task;
}

}  // namespace lockstep
