// What `lockstep train`, `evaluate` and `predict` work on: a task, its model and its data.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/data/text_file.h"
#include "lockstep/models/registry.h"
#include "lockstep/train/metrics.h"
#include "lockstep/train/training_arguments.h"
#include "tools/lockstep/train/model_adapter.h"

namespace lockstep {

/// The flags that say what is trained on what.
struct TaskFlags {
  std::string task;
  std::string model;
  std::string tokenizer;
  std::string train_file;
  std::string validation_file;
  std::vector<std::string> text_columns;
  std::string label_column;
  std::int64_t max_length = 0;
  std::int64_t max_train_samples = 0;
  std::int64_t max_eval_samples = 0;
  std::string empty_texts = "refuse";      ///< rows whose text is empty: refuse or skip
  std::string invalid_texts = "refuse";    ///< rows whose text is no UTF-8: the same
  std::string unlisted_labels = "refuse";  ///< rows to evaluate whose label the model does not have: the same
  bool mlm = false;
  std::vector<std::string> metrics;
  std::string average = "macro";
  bool ignore_mismatched_sizes = false;

  /// Declares them. @param trains  for a training; else for an evaluation
  void add(CLI::App& app, bool trains);
};

/// A task, ready for a Trainer.
struct TrainingTask {
  std::shared_ptr<ModelAdapter> model;
  std::shared_ptr<const Dataset> train;  ///< null where no --train-file was given
  std::shared_ptr<const Dataset> eval;   ///< null where no --validation-file was given
  Collate collate{};
  std::vector<std::int64_t> lengths{};  ///< of the training samples; empty where they are all alike
  std::function<void(std::int64_t)> set_epoch{};
  ComputeMetrics metrics{};
  std::vector<std::string> metric_names{};  ///< of what `metrics` gives
  /// What else than the files makes the samples what they are: TrainerOptions::data_arguments.
  nlohmann::json data_arguments = nlohmann::json::object();
  std::string notice;                   ///< about weights that are new; empty: nothing to say
  std::vector<std::string> warnings{};  ///< of the data, for the block that a training prints first
};

/// Loads model and data. Every rank does. @throws UsageError, Error  naming flag, file and fix
TrainingTask make_training_task(const TaskFlags& flags, const TrainingArguments& args);

// One for each task, in files of their own.
TrainingTask make_text_classification_task(const TaskFlags& flags, const TrainingArguments& args);
TrainingTask make_language_modeling_task(const TaskFlags& flags, const TrainingArguments& args);
TrainingTask make_image_classification_task(const TaskFlags& flags, const TrainingArguments& args);
TrainingTask make_tabular_classification_task(const TaskFlags& flags, const TrainingArguments& args);

/// Where the training file has less than two classes, or about as many as rows, a warning about it. @param labels  that
/// it has
std::vector<std::string> warnings_of_labels(const std::vector<std::string>& labels, std::int64_t rows,
                                            const std::string& train_file);
/// The names of a task's classes, as its data arguments keep them: with others the numbers of a checkpoint mean other
/// classes. Their number alone, where there are many.
nlohmann::json recorded_classes(const std::vector<std::string>& labels);
/// What --empty-texts, --invalid-texts and --unlisted-labels say.
RowPolicy row_policy(const std::string& text);
/// `count` of a dataset at random, as sample_rows takes them of texts; all of it for 0, or if it has no more.
std::shared_ptr<const Dataset> random_samples(std::shared_ptr<const Dataset> dataset, std::int64_t count,
                                              std::uint64_t seed);
/// Gives a task the metrics that the flags ask for; default: accuracy and F1.
void set_metrics_of_flags(const TaskFlags& flags, std::int64_t classes, TrainingTask& task);

/// The columns of a table, by its first record or object. @throws Error  if it cannot be read
std::vector<std::string> columns_of_file(const std::string& path);
/// The tokenizer of --tokenizer, or of the model's folder; where it has no padding token, its end-of-text serves.
/// @throws UsageError  if there is none
Tokenizer tokenizer_of_flags(const TaskFlags& flags);
/// The model of text that --model names, with these labels. @param notice  becomes what is to say about new weights
std::shared_ptr<ModelAdapter> text_model_of_flags(const TaskFlags& flags, const TrainingArguments& args, TextTask task,
                                                  const Tokenizer& tokenizer, const std::vector<std::string>& labels,
                                                  std::string& notice);
/// Tokens of the longest sample: --max-length, or what the model takes, at most 512.
/// @throws UsageError  if the model takes fewer than --max-length
std::int64_t longest_of_flags(const TaskFlags& flags, const Model& model);

}  // namespace lockstep
