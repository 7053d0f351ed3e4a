#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/data/dataset.h"
#include "lockstep/train/metrics.h"
#include "lockstep/train/printer_callback.h"
#include "lockstep/train/trainable_model.h"
#include "lockstep/train/trainer_callback.h"
#include "lockstep/train/training_arguments.h"

namespace lockstep {

/// Writes a line to standard output and flushes it.
void print_line(const std::string& line);

/// Everything that a Trainer needs.
struct TrainerOptions {
  std::shared_ptr<TrainableModel> model;
  TrainingArguments args{};
  std::shared_ptr<const Dataset> train_dataset{};
  std::shared_ptr<const Dataset> eval_dataset{};
  Collate data_collator{};           ///< empty: samples are stacked
  ComputeMetrics compute_metrics{};  ///< if empty, evaluation reports only the loss
  /// The names that compute_metrics returns. If given, an unknown metric_for_best_model is rejected before training
  /// starts; else after the first evaluation.
  std::vector<std::string> metric_names{};
  std::vector<std::int64_t> lengths{};                  ///< of the training samples; needed by group_by_length
  std::function<void(std::int64_t epoch)> set_epoch{};  ///< called before each epoch: for collators that draw masks
  std::vector<std::shared_ptr<TrainerCallback>> callbacks{};
  std::vector<std::string> warnings{};  ///< about the data or the model; a training prints them first
  /// A JSON object with further settings that determine the samples, such as a maximal length. Checkpoints keep it, and
  /// a resumed training warns about values that differ.
  nlohmann::json data_arguments = nlohmann::json::object();
  bool print_logs = true;        ///< add a PrinterCallback; false if another callback shows the logs
  PrintLine print = print_line;  ///< prints lines on rank 0: logs and startup messages; empty: no output
  /// The ranks. Default: the group of init_process_group. If that does not exist but a launcher's environment does
  /// (WORLD_SIZE above 1), the trainer calls init_process_group; else it is one process.
  std::shared_ptr<Communicator> process_group{};
};

struct TrainOutput {
  std::int64_t global_step = 0;
  double training_loss = 0;   ///< mean over all updates of this call
  Logs metrics;               ///< train_runtime, train_samples_per_second, ...
  int stopped_by_signal = 0;  ///< SIGTERM, if SIGTERM or SIGUSR1 ended the training; exit with 128 + this
  /// Set if the checkpoint to resume from already has the requested number of steps: nothing was trained, and the model
  /// has the checkpoint's weights. Empty if something was trained.
  std::string already_complete;
};

struct PredictionOutput {
  at::Tensor predictions;  ///< in the order of the dataset
  at::Tensor label_ids;    ///< undefined if the dataset has no labels
  Logs metrics;
};

/// Trains any model on any number of ranks or replicas, as Hugging Face's Trainer does.
///
///     TrainerOptions options;
///     options.model = ...; options.args = ...; options.train_dataset = ...; options.eval_dataset = ...;
///     options.compute_metrics = classification_metrics();
///     Trainer trainer(options);
///     trainer.train();
///
/// The gradient is that of Σloss / Σcount over the whole global batch, however it is divided: over ranks, replicas and
/// accumulated micro-batches, with short tails and with tokens that do not count. Every sample is used once per epoch.
/// The samples of an update depend only on the seed and the global batch size. See docs/reference/trainer.md.
///
/// All calls are collective: every rank makes the same calls. One thread at a time.
class Trainer {
 public:
  /// @throws UsageError  if the arguments are invalid, or something that they need is missing
  explicit Trainer(TrainerOptions options);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Trains until the end, or until a callback or SIGTERM stops it. Rank 0 locks the output folder (OutputFolderLock)
  /// until this Trainer is destroyed.
  /// @throws Error  as the model, the data, the ranks and the disk do; and if another process trains into the folder
  TrainOutput train();

  /// Evaluates `dataset`, or `eval_dataset`. Returns "eval_loss", "eval_" with each metric's name, "eval_runtime",
  /// "eval_samples_per_second", "eval_steps_per_second" and "epoch". Exact for any number of ranks and any batch size.
  Logs evaluate(std::shared_ptr<const Dataset> dataset = nullptr, const std::string& metric_key_prefix = "eval");
  /// Evaluates, and returns the outputs too.
  PredictionOutput predict(const std::shared_ptr<const Dataset>& dataset,
                           const std::string& metric_key_prefix = "test");

  /// Writes the weights and the model's files into `folder` (default: output_dir), on rank 0.
  void save_model(const std::string& folder = "");
  /// Prints `***** train metrics *****` and the metrics, on rank 0.
  void log_metrics(const std::string& split, const Logs& metrics);
  /// Writes `<split>_results.json` and adds to `all_results.json`, in output_dir, on rank 0.
  void save_metrics(const std::string& split, const Logs& metrics);
  /// Writes `trainer_state.json` into output_dir, on rank 0.
  void save_state();

  void add_callback(std::shared_ptr<TrainerCallback> callback);
  /// Removes a callback; does nothing if it was not added.
  void remove_callback(const TrainerCallback* callback);

  const TrainerState& state() const;
  const TrainingArguments& args() const;
  TrainableModel& model();
  int rank() const;
  int world_size() const;
  bool is_world_process_zero() const { return rank() == 0; }

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace lockstep
