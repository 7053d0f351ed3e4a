#include "tools/lockstep/train/training_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/failure_cause.h"
#include "lockstep/base/random/hash_bytes.h"
#include "lockstep/base/text/download_hint.h"
#include "lockstep/data/csv/csv_tokenizer.h"
#include "lockstep/data/files/file_bytes.h"
#include "lockstep/data/files/format_ending.h"
#include "lockstep/data/subset_dataset.h"
#include "lockstep/data/text/unicode/utf8.h"
#include "lockstep/data/texts/json_records.h"
#include "lockstep/models/registry.h"
#include "tools/lockstep/flags/model_folder.h"
#include "tools/lockstep/flags/tokenizer_flag.h"
#include "tools/lockstep/train/built_model.h"
#include "tools/lockstep/train/whole_model.h"

namespace lockstep {
namespace {

constexpr const char* kTextClassification = "text-classification";
constexpr const char* kSentenceEmbedding = "sentence-embedding";
constexpr const char* kLanguageModeling = "language-modeling";
constexpr const char* kImageClassification = "image-classification";
constexpr const char* kTabularClassification = "tabular-classification";

constexpr std::size_t kMostNames = 100;

}  // namespace

void TaskFlags::add(CLI::App& app, bool trains) {
  CLI::Option* of_task = app.add_option("--task", task, "what the model learns to do");
  of_task->check(CLI::IsMember(
      {kTextClassification, kSentenceEmbedding, kLanguageModeling, kImageClassification, kTabularClassification}));
  if (trains) of_task->required();
  app.add_option(
         "--model,--model-name-or-path", model,
         "folder in Hugging Face's form, or a name: bert-tiny, bert-mini, bert-small, bert-base, gpt2, gpt2-tiny, "
         "gpt2-medium, gpt2-large, convnet, mlp start from random weights")
      ->required();
  app.add_option("--tokenizer,--tokenizer-name", tokenizer, "folder of the tokenizer; default: the model's");
  if (trains) {
    app.add_option("--train-file", train_file, "CSV, TSV, JSON Lines or text; for images a folder of IDX files")
        ->required();
  }
  CLI::Option* of_validation =
      app.add_option("--validation-file,--test-file", validation_file,
                     trains ? "the same, to evaluate on"
                            : "CSV, TSV, JSON Lines or text to evaluate on; for images a folder of IDX files");
  if (!trains) of_validation->required();
  app.add_option(
         "--text-column", text_columns,
         "column of the text, or two for pairs of sentences; default: found by name. For --task sentence-embedding: "
         "the columns of anchor, positive and any number of negatives, or two columns and a label")
      ->delimiter(',');
  app.add_option("--label-column", label_columns,
                 "column of the label; default: label. For texts also several columns of 0 and 1, one per label, if a "
                 "text may have several labels. For --task sentence-embedding: the similarity of two texts, from -1 to "
                 "1; default: score, if there is one")
      ->delimiter(',');
  app.add_option("--max-length,--max-seq-length,--block-size", max_length,
                 trains ? "tokens of a sample at most; default: what tokenizer and model allow, at most 512"
                        : "tokens of a sample at most; default: as in the training that saved the model")
      ->check(CLI::PositiveNumber);
  if (trains) {
    app.add_option("--max-train-samples", max_train_samples,
                   "use this many rows of the training file, chosen at random (language modelling: this many blocks "
                   "from its start); 0: all")
        ->check(CLI::NonNegativeNumber);
  }
  app.add_option("--max-eval-samples", max_eval_samples,
                 "use this many rows of the validation file, chosen at random (language modelling: this many blocks "
                 "from its start); 0: all")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--empty-texts", empty_texts, "what to do with rows whose text is empty")
      ->check(CLI::IsMember({"refuse", "skip"}))
      ->capture_default_str();
  app.add_option("--missing-labels", missing_labels, "what to do with rows whose label is empty or null")
      ->check(CLI::IsMember({"refuse", "skip"}))
      ->capture_default_str();
  table.add(app);
  app.add_option("--invalid-texts", invalid_texts, "what to do with rows whose text is not UTF-8")
      ->check(CLI::IsMember({"refuse", "skip"}))
      ->capture_default_str();
  app.add_option("--unlisted-labels", unlisted_labels,
                 "what to do with texts to evaluate whose label the model does not have")
      ->check(CLI::IsMember({"refuse", "skip"}))
      ->capture_default_str();
  if (trains) {
    app.add_option("--problem-type", problem_type,
                   "text-classification: classes, numbers to predict, or several labels per text; default: numbers if "
                   "a label has a fraction, several labels if labels are lists or columns")
        ->check(CLI::IsMember({"single_label_classification", "regression", "multi_label_classification"}));
  }
  app.add_flag("--mlm", mlm, "language modelling: predict masked words (bert) instead of the next word (gpt2)");
  app.add_option("--keep-linebreaks", keep_linebreaks,
                 "language modelling of a .txt file: keep line breaks; default: true, or false with --mlm");
  app.add_flag("--append-eos", append_eos, "language modelling: add an end-of-text token after each line or row");
  app.add_option(
         "--metrics", metrics,
         "metrics, from accuracy, precision, recall, f1, matthews_correlation; default: accuracy,f1. For numbers: from "
         "mse, pearson, spearmanr; for several labels per text: from f1_micro, f1_macro, accuracy; default: all")
      ->delimiter(',');
  app.add_option("--average", average, "average of precision, recall and f1 over classes")
      ->check(CLI::IsMember({"binary", "macro", "weighted"}))
      ->capture_default_str();
  if (trains) {
    app.add_flag("--ignore-mismatched-sizes", ignore_mismatched_sizes,
                 "newly initialise weights whose shapes do not fit the model");
  }
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() == 1) option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
}

std::string TaskFlags::label_column() const {
  if (label_columns.size() < 2) return label_columns.empty() ? "" : label_columns.front();
  throw UsageError(fmt::format("there are {} label columns, but --task {} has one", label_columns.size(), task),
                   "--label-column", "name one column");
}

namespace {

// Flags that the task would pass over.
void refuse_flags_of_other_tasks(const TaskFlags& flags) {
  const bool is_language = flags.task == kLanguageModeling;
  const auto refuse = [&](const char* flag) {
    throw UsageError(fmt::format("{} cannot be combined with --task {}", flag, flags.task), "command line",
                     "leave it out");
  };
  if (!is_language && flags.keep_linebreaks) refuse("--keep-linebreaks");
  if (!is_language && flags.append_eos) refuse("--append-eos");
}

// What is wrong with a file is so on every rank, and in every further start: the launcher starts no rank again, and the
// error is shown once. A cause means that ranks have met meanwhile.
template <typename Make>
auto refusing_files(const Make& make) {
  try {
    return make();
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    if (cause_of(error) != nullptr || dynamic_cast<const TimeoutError*>(&error) != nullptr) throw;
    throw_caused(error, FailureCause{FailureCause::Kind::Usage, -1});
  }
}

}  // namespace

TrainingTask make_training_task(const TaskFlags& flags, const TrainingArguments& args) {
  refuse_flags_of_other_tasks(flags);
  const auto make = flags.task == kTextClassification    ? make_text_classification_task
                    : flags.task == kSentenceEmbedding   ? make_sentence_embedding_task
                    : flags.task == kLanguageModeling    ? make_language_modeling_task
                    : flags.task == kImageClassification ? make_image_classification_task
                                                         : make_tabular_classification_task;
  TrainingTask task = refusing_files([&] { return make(flags, args); });
  task.data_arguments["mlm"] = flags.mlm;
  task.data_arguments["quoting"] = flags.table.quoting;
  task.data_arguments["no_header"] = flags.table.no_header;
  return task;
}

void note_weights(const LoadReport& report, const TaskFlags& flags, TrainingTask& task) {
  if (flags.train_file.empty()) return require_whole_model(report, flags.model);
  task.notice = report.text();
}

std::vector<std::string> warnings_of_labels(const std::vector<std::string>& labels, std::int64_t rows,
                                            const std::string& train_file) {
  constexpr std::int64_t kFewClasses = 20;
  const auto classes = static_cast<std::int64_t>(labels.size());
  if (classes > kFewClasses && classes > rows / 2) {
    return {fmt::format("{} has {} classes in {} rows: is the label in another column (--label-column)?", train_file,
                        classes, rows)};
  }
  if (classes != 1) return {};
  return {fmt::format("all rows of {} have the label \"{}\": there is nothing to distinguish", train_file, labels[0])};
}

nlohmann::json recorded_classes(const std::vector<std::string>& labels) {
  if (labels.size() > kMostNames) return labels.size();
  return labels;
}

std::string classes_digest(const std::vector<std::string>& labels) {
  std::uint64_t digest = labels.size();
  for (const std::string& label : labels) mix_into(digest, hash_bytes(label.data(), label.size()));
  return fmt::format("{:016x}", digest);
}

nlohmann::json recorded_values(const std::map<std::string, std::int64_t>& labels) {
  std::vector<std::string> values(labels.size());
  for (const auto& [text, number] : labels) values.at(static_cast<std::size_t>(number)) = text;
  if (values.size() <= kMostNames) return values;
  return fmt::format("{} values with digest {}", values.size(), classes_digest(values));
}

RowPolicy row_policy(const std::string& text) { return text == "skip" ? RowPolicy::Skip : RowPolicy::Refuse; }

std::shared_ptr<const Dataset> random_samples(std::shared_ptr<const Dataset> dataset, std::int64_t count,
                                              std::uint64_t seed) {
  if (count == 0 || !dataset || dataset->size() <= count) return dataset;
  return random_split(dataset, {count, dataset->size() - count}, seed).front();
}

void set_metrics_of_flags(const TaskFlags& flags, std::int64_t classes, TrainingTask& task) {
  ClassificationMetricsOptions options;
  if (!flags.metrics.empty()) options.metrics = flags.metrics;
  if (flags.average == "binary") options.average = Average::Binary;
  if (flags.average == "weighted") options.average = Average::Weighted;
  if (options.average == Average::Binary && classes != 2) {
    throw UsageError(fmt::format("--average binary cannot be used with {} classes", classes), "command line",
                     "use macro or weighted");
  }
  task.metric_names = options.metrics;
  task.metrics = classification_metrics(options);
}

std::vector<std::string> columns_of_file(const std::string& path, const TableForm& form) {
  const FileBytes file = FileBytes::open_text(path);
  std::vector<std::string> columns;
  if (const std::string ending = format_ending(path); ending == ".jsonl" || ending == ".ndjson") {
    const std::string_view line = file.view().substr(0, file.view().find('\n'));
    const auto object = parsed_record(line, path + ":1");
    for (const auto& [key, value] : object.items()) columns.push_back(key);
    return columns;
  }
  CsvTokenizer records(file.view(), path, form.dialect);
  std::vector<CsvField> fields;
  if (!records.next(fields)) throw Error("the file is empty", path, "name a file with a header and rows");
  std::string storage;
  for (std::size_t i = 1; !form.has_header && i <= fields.size(); ++i) columns.push_back(std::to_string(i));
  if (!form.has_header) return columns;
  for (const CsvField& field : fields) {
    columns.emplace_back(field.value(storage));
    if (columns.back().find('\0') == std::string::npos && text::is_valid_utf8(columns.back())) continue;
    throw Error("the header is not UTF-8 text", records.where(field),
                "name a table stored as text; if it has another encoding, iconv -f ENCODING -t UTF-8 FILE converts it");
  }
  return columns;
}

Tokenizer tokenizer_of_folders(const std::string& tokenizer_folder, const std::string& model_folder) {
  if (!tokenizer_folder.empty()) require_tokenizer_folder(tokenizer_folder);
  refuse_other_models(model_folder);
  Tokenizer tokenizer = load_tokenizer(tokenizer_folder.empty() ? model_folder : tokenizer_folder);
  if (!tokenizer.pad_id() && tokenizer.special_tokens().eos) tokenizer.set_pad_token(*tokenizer.special_tokens().eos);
  return tokenizer;
}

Tokenizer tokenizer_of_flags(const TaskFlags& flags) {
  const bool has_own = std::filesystem::is_directory(flags.model);
  if (flags.tokenizer.empty() && !has_own) {
    const auto& made = registered_models();
    const bool is_made_here =
        std::any_of(made.begin(), made.end(), [&](const ModelInfo& model) { return model.name == flags.model; });
    throw UsageError(
        "there is no folder " + flags.model + ", and a model that is named has no tokenizer of its own", "--model",
        (is_made_here ? "" : download_hint(flags.model)) +
            "give the folder of a model; or a name (bert-tiny, gpt2, ...) and --tokenizer FOLDER: lockstep "
            "tokenizer train --output FOLDER TEXTS learns one");
  }
  return tokenizer_of_folders(flags.tokenizer, flags.model);
}

Loaded<Model> load_text_model(const TaskFlags& flags, const TrainingArguments& args, TextTask task,
                              const Tokenizer& tokenizer, const std::vector<std::string>& labels,
                              const std::string& problem_type) {
  LoadOptions options;
  options.labels = labels;
  options.problem_type = problem_type;
  options.tokenizer_size = tokenizer.vocab_size();
  options.ignore_mismatched_sizes = flags.ignore_mismatched_sizes;
  options.gradient_checkpointing = args.gradient_checkpointing;
  return built_for_training(args, [&] { return load_or_make_model(flags.model, task, options, tokenizer.pad_id()); });
}

std::shared_ptr<AdaptedModule<Model>> trainable_text_model(const std::shared_ptr<Model>& model, Tokenizer tokenizer,
                                                           std::int64_t longest, bool recomputes_activations,
                                                           std::map<std::string, std::string> files) {
  tokenizer.set_model_max_length(longest);
  files.merge(tokenizer.files());
  files["config.json"] = config_json_of(*model);
  auto adapted = adapt(model);
  adapted->set_files(std::move(files));
  adapted->set_recomputes_activations(recomputes_activations);
  return adapted;
}

TextLength text_length_of_flags(const TaskFlags& flags, const Tokenizer& tokenizer, std::int64_t positions) {
  return flags.train_file.empty() ? text_length_of_saved(flags.max_length, tokenizer, positions)
                                  : text_length_of_training(flags.max_length, tokenizer, positions);
}

}  // namespace lockstep
