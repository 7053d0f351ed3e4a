// A task, its model and its data, for `lockstep train`, `evaluate` and `predict`.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/data/text_file.h"
#include "lockstep/models/registry.h"
#include "lockstep/train/metrics.h"
#include "lockstep/train/trainable_model.h"
#include "lockstep/train/training_arguments.h"
#include "tools/lockstep/flags/table_flags.h"
#include "tools/lockstep/train/text_length.h"

namespace lockstep {

/// The flags that define the task, the model and the data.
struct TaskFlags {
  std::string task;
  std::string model;
  std::string tokenizer;
  std::string train_file;
  std::string validation_file;
  std::vector<std::string> text_columns;
  std::vector<std::string> label_columns;  ///< one; of texts also several, of 0 and 1: see --label-column
  std::int64_t max_length = 0;
  std::int64_t max_train_samples = 0;
  std::int64_t max_eval_samples = 0;
  std::string empty_texts = "refuse";      ///< rows whose text is empty: refuse or skip
  std::string invalid_texts = "refuse";    ///< rows whose text is not UTF-8: refuse or skip
  std::string unlisted_labels = "refuse";  ///< rows to evaluate whose label the model does not have: refuse or skip
  std::string missing_labels = "refuse";   ///< rows without a label: refuse or skip
  TableFlags table;                        ///< how tables of texts are written
  bool mlm = false;
  std::optional<bool> keep_linebreaks;  ///< language modelling: lines of plain text keep their ends; default: not mlm
  bool append_eos = false;              ///< language modelling: an end-of-text token behind each row
  std::string problem_type;             ///< as in config.json; empty: as the labels say
  std::vector<std::string> metrics;
  std::string average = "macro";
  bool ignore_mismatched_sizes = false;

  /// Declares the flags. @param trains  for a training; else for an evaluation
  void add(CLI::App& app, bool trains);
  /// The one label column; empty if none was given. @throws UsageError  if several were
  std::string label_column() const;
};

/// A task, ready for a Trainer.
struct TrainingTask {
  std::shared_ptr<TrainableModel> model;
  std::shared_ptr<const Dataset> train;  ///< null if no --train-file was given
  std::shared_ptr<const Dataset> eval;   ///< null if no --validation-file was given
  Collate collate{};
  std::vector<std::int64_t> lengths{};  ///< of the training samples; empty if all are equal
  std::function<void(std::int64_t)> set_epoch{};
  ComputeMetrics metrics{};
  std::vector<std::string> metric_names{};  ///< the names that `metrics` returns
  /// The other inputs that determine the samples, besides the files: TrainerOptions::data_arguments.
  nlohmann::json data_arguments = nlohmann::json::object();
  std::string notice;                   ///< about new weights; empty: no notice
  std::vector<std::string> notes{};     ///< lines about the samples that the files make, printed before the work begins
  std::string text_length{};            ///< a line about the longest sample; empty if the task is not about texts
  std::vector<std::string> facts{};     ///< about the data, for the block that a training prints first
  std::vector<std::string> warnings{};  ///< the same as warnings
};

/// Loads model and data. Every rank does. @throws UsageError, Error  naming flag, file and fix
TrainingTask make_training_task(const TaskFlags& flags, const TrainingArguments& args);

// One for each task, in files of their own.
TrainingTask make_text_classification_task(const TaskFlags& flags, const TrainingArguments& args);
TrainingTask make_sentence_embedding_task(const TaskFlags& flags, const TrainingArguments& args);
TrainingTask make_language_modeling_task(const TaskFlags& flags, const TrainingArguments& args);
TrainingTask make_image_classification_task(const TaskFlags& flags, const TrainingArguments& args);
TrainingTask make_tabular_classification_task(const TaskFlags& flags, const TrainingArguments& args);

/// What loading says of the weights, as the task's notice. Without a training file they are judged as they are.
/// @throws Error  if then some are new, and random
void note_weights(const LoadReport& report, const TaskFlags& flags, TrainingTask& task);
/// A warning if the training file has fewer than two classes, or about as many as rows. @param labels  the file's
/// labels
std::vector<std::string> warnings_of_labels(const std::vector<std::string>& labels, std::int64_t rows,
                                            const std::string& train_file);
/// The names of a task's classes, as its data arguments keep them: with other names, the numbers of a checkpoint mean
/// other classes. Only their number if there are many.
nlohmann::json recorded_classes(const std::vector<std::string>& labels);
/// A digest of all of them, by which ranks compare them.
std::string classes_digest(const std::vector<std::string>& labels);
/// The texts of labels that are numbers or lists, as data arguments keep them, or a digest if there are many: ranks
/// compare them. @param labels  TextDataset::labels
nlohmann::json recorded_values(const std::map<std::string, std::int64_t>& labels);
/// The policy of --empty-texts, --invalid-texts or --unlisted-labels.
RowPolicy row_policy(const std::string& text);
/// `count` random samples of a dataset, chosen as sample_rows chooses rows; all of them for 0, or if it has no more.
std::shared_ptr<const Dataset> random_samples(std::shared_ptr<const Dataset> dataset, std::int64_t count,
                                              std::uint64_t seed);
/// Sets the metrics that the flags request on a task; default: accuracy and F1.
void set_metrics_of_flags(const TaskFlags& flags, std::int64_t classes, TrainingTask& task);

/// The columns of a table, from its first record or object; 1, 2, … without a header. @throws Error  if it cannot be
/// read
std::vector<std::string> columns_of_file(const std::string& path, const TableForm& form = {});
/// The tokenizer of the first folder, or of the model's folder if the first is empty. If it has no padding token, its
/// end-of-text token is used. @throws UsageError  if the first folder does not exist
Tokenizer tokenizer_of_folders(const std::string& tokenizer_folder, const std::string& model_folder);
/// The tokenizer of --tokenizer, or of the model's folder. @throws UsageError  if there is none
Tokenizer tokenizer_of_flags(const TaskFlags& flags);
/// The text model that --model names, with these labels. @param problem_type  see LoadOptions
Loaded<Model> load_text_model(const TaskFlags& flags, const TrainingArguments& args, TextTask task,
                              const Tokenizer& tokenizer, const std::vector<std::string>& labels,
                              const std::string& problem_type = "");
/// The same model for a Trainer. Its saved folders hold config.json and the tokenizer, which declares `longest` as the
/// length of the longest input, so that whoever reads the folder cuts texts as the training did.
/// @param files  further files of the folder, such as generation_config.json
std::shared_ptr<AdaptedModule<Model>> trainable_text_model(const std::shared_ptr<Model>& model, Tokenizer tokenizer,
                                                           std::int64_t longest, bool recomputes_activations,
                                                           std::map<std::string, std::string> files = {});
/// The longest sample: see text_length_of_training if there is a training file, else text_length_of_saved.
/// @param positions  of the model
TextLength text_length_of_flags(const TaskFlags& flags, const Tokenizer& tokenizer, std::int64_t positions);

}  // namespace lockstep
