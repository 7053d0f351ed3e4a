// Classification of texts and of pairs of texts.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/data/padding_collator.h"
#include "lockstep/data/text_file.h"
#include "lockstep/data/tokenized_dataset.h"
#include "lockstep/models/registry.h"
#include "tools/lockstep/train/problem_type.h"
#include "tools/lockstep/train/training_task.h"

namespace lockstep {
namespace {

bool has_column(const std::vector<std::string>& columns, const std::string& name) {
  return std::find(columns.begin(), columns.end(), name) != columns.end();
}

// The columns of a file that open_text_file reads.
std::vector<std::string> columns_of_texts(const std::string& path) {
  std::filesystem::path name = path;
  if (name.extension() == ".gz") name = name.stem();
  if (name.extension() == ".txt") return {"text"};
  if (name.extension() == ".json") return squad_columns();
  if (name.extension() != ".parquet") return columns_of_file(path);
  std::vector<std::string> columns;
  for (const auto& column : read_parquet_schema(path).columns) columns.push_back(column.first);
  return columns;
}

// The columns that the flags name, or the usual ones.
TextFileOptions text_columns_of(const TaskFlags& flags, const std::string& path) {
  const std::vector<std::string> columns = columns_of_texts(path);
  TextFileOptions options;
  options.texts = text_columns_of_file(path, flags.text_columns);
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

// Two labels of a model may share a name: a label column with that name would not say which of the two a row has.
std::map<std::string, std::int64_t> numbered(const std::vector<std::string>& labels, const std::string& model) {
  std::map<std::string, std::int64_t> numbers;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto [first, is_new] = numbers.emplace(labels[i], static_cast<std::int64_t>(i));
    if (is_new) continue;
    throw Error(
        fmt::format("the model gives labels {} and {} the same name, \"{}\", so a label column that holds names "
                    "is ambiguous",
                    first->second, i, printable(labels[i])),
        model, "give every label a name of its own under \"id2label\" in the model's config.json");
  }
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
  options.fractions = flags.problem_type != "single_label_classification";
  options.empty_texts = row_policy(flags.empty_texts);
  options.invalid_texts = row_policy(flags.invalid_texts);
  // The labels of the training file are learned, so each of them is listed.
  if (!labels.empty()) options.unlisted_labels = row_policy(flags.unlisted_labels);
  auto rows = open_text_file(path, options);
  return samples > 0 && samples < rows->size() ? sample_rows(rows, samples, seed) : rows;
}

std::shared_ptr<const TokenizedDataset> tokenized(const TextDataset& rows, const Tokenizer& tokenizer,
                                                  std::int64_t max_length) {
  const EncodeOptions whole;
  const bool are_pairs = rows.get(0).texts.size() == 2;
  const auto special =
      are_pairs ? tokenizer.encode_pair("", "", whole).ids.size() : tokenizer.encode("", whole).ids.size();
  if (max_length <= static_cast<std::int64_t>(special)) {
    throw UsageError(
        fmt::format("--max-length {} leaves no token for a text beside the {} special ones", max_length, special),
        "command line", fmt::format("take {} or more", special + 1));
  }
  TokenizeOptions options;
  options.truncation = true;
  options.max_length = max_length;
  return tokenize(rows, tokenizer, options);
}

}  // namespace

std::vector<std::string> text_columns_of_file(const std::string& path, const std::vector<std::string>& given) {
  if (!given.empty()) return given;
  const std::vector<std::string> columns = columns_of_texts(path);
  const std::vector<std::vector<std::string>> usual{
      {"text"}, {"sentence1", "sentence2"}, {"premise", "hypothesis"}, {"sentence"}, {"review"}, {"content"}};
  for (const auto& names : usual) {
    if (std::all_of(names.begin(), names.end(), [&](const auto& name) { return has_column(columns, name); })) {
      return names;
    }
  }
  throw UsageError(fmt::format("which column holds the text? There are {}", fmt::join(columns, ", ")), path,
                   "give --text-column, or two of a pair");
}

TrainingTask make_text_classification_task(const TaskFlags& flags, const TrainingArguments& args) {
  const auto seed = static_cast<std::uint64_t>(args.seed);
  const Tokenizer tokenizer = tokenizer_of_flags(flags);
  const bool is_folder = std::filesystem::is_directory(flags.model);

  std::shared_ptr<const TextDataset> train_rows;
  std::vector<std::string> labels;  // empty: the labels of the model's folder
  if (!flags.train_file.empty()) {
    train_rows = read_rows(flags, flags.train_file, flags.max_train_samples, {}, seed);
    labels = names_of(train_rows->labels());
  }
  const bool are_numbers = label_problem(flags, labels) == LabelProblem::Numbers;
  if (are_numbers && train_rows) labels = {"LABEL_0"};
  const std::vector<std::string> warnings =
      are_numbers ? std::vector<std::string>{}
                  : warnings_of_labels(labels, train_rows ? train_rows->size() : 0, flags.train_file);
  if (labels.empty() && !is_folder) {
    throw UsageError("--model " + flags.model + " has no labels of its own", "command line",
                     "give the folder of a trained model");
  }
  const Loaded<Model> loaded = load_text_model(flags, args, TextTask::SequenceClassification, tokenizer, labels,
                                               are_numbers ? "regression" : flags.problem_type);
  const TextLength length = text_length_of_flags(flags, tokenizer, *loaded.model);
  labels = labels_of(*loaded.model);
  TrainingTask task;
  task.warnings = warnings;
  task.notice = loaded.report.text();
  task.text_length = length.line();
  task.model = trainable_text_model(loaded.model, tokenizer, length.tokens, args.gradient_checkpointing);
  if (train_rows) {
    const auto dataset = tokenized(*train_rows, tokenizer, length.tokens);
    if (args.group_by_length) task.lengths = dataset->lengths();
    task.train = are_numbers ? with_numbers_as_labels(dataset, train_rows->labels(), flags.train_file) : dataset;
  }
  if (!flags.validation_file.empty()) {
    const auto known = are_numbers ? std::map<std::string, std::int64_t>{} : numbered(labels, flags.model);
    const auto rows = read_rows(flags, flags.validation_file, flags.max_eval_samples, known, seed);
    task.eval = tokenized(*rows, tokenizer, length.tokens);
    if (are_numbers) task.eval = with_numbers_as_labels(task.eval, rows->labels(), flags.validation_file);
  }
  task.data_arguments["classes"] = recorded_classes(labels);
  task.collate = DataCollatorWithPadding(tokenizer);
  if (are_numbers) {
    set_metrics_of_numbers(flags, task);
  } else {
    set_metrics_of_flags(flags, static_cast<std::int64_t>(labels.size()), task);
  }
  return task;
}

}  // namespace lockstep
