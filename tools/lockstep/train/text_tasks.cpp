// Classification of texts and of pairs of texts.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/data/padding_collator.h"
#include "lockstep/data/text_file.h"
#include "lockstep/data/tokenized_dataset.h"
#include "lockstep/detail/models/config_file.h"
#include "lockstep/models/registry.h"
#include "tools/lockstep/train/class_counts.h"
#include "tools/lockstep/train/label_sets.h"
#include "tools/lockstep/train/number_spelling.h"
#include "tools/lockstep/train/problem_type.h"
#include "tools/lockstep/train/text_columns.h"
#include "tools/lockstep/train/training_task.h"

namespace lockstep {
namespace {

// What the labels mean, and the names of the model's outputs.
struct LabelMeaning {
  LabelProblem problem;
  std::vector<std::string> names;
};

// The columns that the flags name, or the usual ones. `known` is null for the training file.
TextFileOptions text_columns_of(const TaskFlags& flags, const std::string& path, const LabelMeaning* known) {
  TextFileOptions options;
  const TableForm form = flags.table.form();
  set_form(form, path, options);
  const std::vector<std::string> columns = columns_of_texts(path, form);
  options.texts = text_columns_of_file(path, flags.text_columns, form);
  if (options.texts.size() > 2) {
    throw UsageError(
        fmt::format("there are {} text columns, but a text to classify has one or two", options.texts.size()),
        "--text-column", "name one, or two for pairs");
  }
  if (flags.label_columns.size() > 1) {
    options.label_columns = flags.label_columns;
    return options;
  }
  if (!flags.label_columns.empty()) options.label = flags.label_columns.front();
  for (const char* name : {"label", "labels"}) {
    if (options.label.empty() && has_column(columns, name)) options.label = name;
  }
  const bool has_each_label = known != nullptr && known->problem == LabelProblem::Sets &&
                              std::all_of(known->names.begin(), known->names.end(),
                                          [&](const std::string& name) { return has_column(columns, name); });
  if (options.label.empty() && has_each_label) {
    options.label_columns = known->names;
  } else if (options.label.empty()) {
    throw UsageError(fmt::format("the label column is unknown; the columns are {}", shown_columns(columns)), path,
                     known == nullptr ? "give --label-column"
                                      : "give --label-column; texts without labels are for lockstep predict --file");
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

std::shared_ptr<const TextDataset> read_rows(const TaskFlags& flags, const std::string& path, std::int64_t samples,
                                             std::uint64_t seed, const LabelMeaning* known,
                                             nlohmann::json& data_arguments) {
  TextFileOptions options = text_columns_of(flags, path, known);
  record_columns(options, data_arguments);
  const bool are_classes = known != nullptr && known->problem == LabelProblem::Classes;
  if (are_classes) options.labels = numbered(known->names, flags.model);
  options.fractions = flags.problem_type != "single_label_classification";
  options.label_lists = flags.problem_type.empty() || flags.problem_type == problem_type_name(LabelProblem::Sets);
  options.missing_labels = row_policy(flags.missing_labels);
  options.empty_texts = row_policy(flags.empty_texts);
  options.invalid_texts = row_policy(flags.invalid_texts);
  // The labels of the training file are learned, so each of them is listed.
  const RowPolicy unlisted = row_policy(flags.unlisted_labels);
  if (are_classes) options.unlisted_labels = unlisted;
  auto rows = open_text_file(path, options);
  if (known != nullptr && known->problem == LabelProblem::Sets && unlisted == RowPolicy::Skip) {
    rows = rows_of_known_labels(std::move(rows), known->names, path);
  }
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

// What the training file's labels mean; without that file, what the model's folder says. No names: the model has them.
LabelMeaning meaning_of(const TaskFlags& flags, const TextDataset* train_rows) {
  const std::vector<std::string> texts =
      train_rows == nullptr ? std::vector<std::string>{} : texts_of_labels(train_rows->labels());
  const LabelProblem problem = label_problem(flags, train_rows);
  if (problem == LabelProblem::Classes) {
    if (const auto joined = joined_label_in(texts)) {
      log_warning(
          "the label \"{}\" is a class of its own besides those that it names; if such texts have several labels, "
          "write lists, as [\"rude\",\"threat\"], or a column of 0 and 1 for each label (--label-column)",
          printable(*joined));
    }
  }
  if (texts.empty() || problem == LabelProblem::Classes) return {problem, texts};
  if (problem == LabelProblem::Numbers) return {problem, {"LABEL_0"}};
  return {problem, flags.label_columns.size() > 1 ? flags.label_columns : names_in_lists(texts)};
}

// The names that the model in a folder gives its outputs, if they are those of the training file in another order: its
// head knows them by its own numbers. Warns if they are other names, for the head's rows then get new meanings.
std::vector<std::string> names_of_head(const TaskFlags& flags, const std::vector<std::string>& names) {
  if (!std::filesystem::exists(std::filesystem::path(flags.model) / "config.json")) return {};
  const std::vector<std::string> given = ConfigFile(flags.model).labels();
  if (given.empty() || given == names || given.front() == "LABEL_0") return {};
  const std::set<std::string> of_head(given.begin(), given.end()), of_file(names.begin(), names.end());
  if (of_head == of_file && given.size() == names.size()) return given;
  if (given.size() == names.size()) {
    log_warning(
        "the model's labels are {}, but those of {} are {}: the model's outputs get these names in their order, and "
        "begin with the weights of other labels",
        fmt::join(given, ", "), flags.train_file, fmt::join(names, ", "));
  }
  return {};
}

// How often the labels of the training file come, and what is strange about them.
void describe_labels(LabelProblem problem, const TaskFlags& flags, const TextDataset& rows,
                     const std::vector<std::int64_t>& labels, TrainingTask& task) {
  const std::string& path = flags.train_file;
  if (problem == LabelProblem::Numbers) return task.facts.push_back(regression_line(flags, rows, labels));
  const std::vector<std::string> names = texts_of_labels(rows.labels());
  const bool are_classes = problem == LabelProblem::Classes;
  const ClassCounts counts = are_classes ? count_classes(names, labels) : count_sets(rows.labels(), labels);
  const auto warn = [&](const std::vector<std::string>& lines) {
    task.warnings.insert(task.warnings.end(), lines.begin(), lines.end());
  };
  task.facts.push_back(class_counts_line(counts));
  if (are_classes) warn(warnings_of_labels(names, rows.size(), path));
  if (are_classes) warn(warnings_of_imbalance(counts, path));
  warn(warnings_of_spellings(counts, path));
}

std::shared_ptr<const Dataset> with_labels(const LabelMeaning& labels, std::shared_ptr<const Dataset> samples,
                                           const TextDataset& rows, const std::string& path, RowPolicy unlisted) {
  if (labels.problem == LabelProblem::Numbers) return with_numbers_as_labels(std::move(samples), rows.labels(), path);
  if (labels.problem == LabelProblem::Classes) return samples;
  return with_sets_as_labels(std::move(samples), rows.labels(), labels.names, path, unlisted);
}

}  // namespace

TrainingTask make_text_classification_task(const TaskFlags& flags, const TrainingArguments& args) {
  const auto seed = static_cast<std::uint64_t>(args.seed);
  const Tokenizer tokenizer = tokenizer_of_flags(flags);
  TrainingTask task;
  std::shared_ptr<const TextDataset> train_rows;
  if (!flags.train_file.empty()) {
    train_rows = read_rows(flags, flags.train_file, flags.max_train_samples, seed, nullptr, task.data_arguments);
    if (flags.problem_type.empty()) require_numbers_or_names(*train_rows, flags.train_file);
  }
  LabelMeaning labels = meaning_of(flags, train_rows.get());
  if (labels.names.empty() && train_rows) {
    throw UsageError("no row has a label", flags.train_file, "name another column: --label-column");
  }
  if (labels.names.empty() && !std::filesystem::is_directory(flags.model)) {
    throw UsageError("--model " + flags.model + " does not have labels of its own", "command line",
                     "give the folder of a trained model");
  }
  const bool are_classes = labels.problem == LabelProblem::Classes;
  if (train_rows && labels.problem != LabelProblem::Numbers) {
    if (const std::vector<std::string> names = names_of_head(flags, labels.names); !names.empty()) labels.names = names;
  }
  if (train_rows && are_classes && labels.names != texts_of_labels(train_rows->labels())) {
    train_rows = read_rows(flags, flags.train_file, flags.max_train_samples, seed, &labels, task.data_arguments);
  }
  const Loaded<Model> loaded = load_text_model(flags, args, TextTask::SequenceClassification, tokenizer, labels.names,
                                               are_classes ? flags.problem_type : problem_type_name(labels.problem));
  const TextLength length = text_length_of_flags(flags, tokenizer, max_positions_of(*loaded.model));
  task.data_arguments["max_length"] = length.tokens;
  labels.names = labels_of(*loaded.model);
  note_weights(loaded.report, flags, task);
  task.text_length = length.line();
  task.model = trainable_text_model(loaded.model, tokenizer, length.tokens, args.gradient_checkpointing);
  if (train_rows) {
    const auto samples = tokenized(*train_rows, tokenizer, length.tokens);
    describe_labels(labels.problem, flags, *train_rows, samples->labels(), task);
    if (args.group_by_length) task.lengths = samples->lengths();
    task.train = with_labels(labels, samples, *train_rows, flags.train_file, RowPolicy::Refuse);
    if (!are_classes) task.data_arguments["label_values"] = recorded_values(train_rows->labels());
  }
  if (train_rows && are_classes && flags.problem_type.empty()) {
    const auto of_numbers = warnings_of_number_labels(texts_of_labels(train_rows->labels()), flags.train_file);
    task.warnings.insert(task.warnings.end(), of_numbers.begin(), of_numbers.end());
  }
  if (!flags.validation_file.empty()) {
    const auto rows =
        read_rows(flags, flags.validation_file, flags.max_eval_samples, seed, &labels, task.data_arguments);
    task.eval = with_labels(labels, tokenized(*rows, tokenizer, length.tokens), *rows, flags.validation_file,
                            row_policy(flags.unlisted_labels));
    if (!are_classes) task.data_arguments["eval_label_values"] = recorded_values(rows->labels());
  }
  task.data_arguments["classes"] = recorded_classes(labels.names);
  task.data_arguments["classes_digest"] = classes_digest(labels.names);
  task.collate = DataCollatorWithPadding(tokenizer);
  set_metrics_of_problem(labels.problem, flags, static_cast<std::int64_t>(labels.names.size()), task);
  return task;
}

}  // namespace lockstep
