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

/// Writes a line to standard output at once.
void print_line(const std::string& line);

/// What a Trainer is given.
struct TrainerOptions {
  std::shared_ptr<TrainableModel> model;
  TrainingArguments args{};
  std::shared_ptr<const Dataset> train_dataset{};
  std::shared_ptr<const Dataset> eval_dataset{};
  Collate data_collator{};           ///< empty: samples are stacked
  ComputeMetrics compute_metrics{};  ///< empty: evaluations tell the loss alone
  /// Names of what compute_metrics gives. With them a metric_for_best_model that is none is refused before training
  /// begins; without, after the first evaluation.
  std::vector<std::string> metric_names{};
  std::vector<std::int64_t> lengths{};                  ///< of the training samples; needed by group_by_length
  std::function<void(std::int64_t epoch)> set_epoch{};  ///< called before each epoch: for collators that draw masks
  std::vector<std::shared_ptr<TrainerCallback>> callbacks{};
  std::vector<std::string> warnings{};  ///< of the data or the model, for the block that a training prints first
  /// An object of what else makes the samples what they are, such as a maximal length: kept in checkpoints, and a
  /// training that goes on with another value says so.
  nlohmann::json data_arguments = nlohmann::json::object();
  bool print_logs = true;        ///< add a PrinterCallback; false where another callback shows the logs
  PrintLine print = print_line;  ///< for the lines of rank 0: logs, what is said at start; empty: nobody sees them
  /// The ranks. Default: the group of init_process_group; where there is none, but a launcher's environment
  /// (WORLD_SIZE above 1), the trainer calls init_process_group. Else one process.
  std::shared_ptr<Communicator> process_group{};
};

struct TrainOutput {
  std::int64_t global_step = 0;
  double training_loss = 0;   ///< mean over all updates of this session
  Logs metrics;               ///< train_runtime, train_samples_per_second, ...
  int stopped_by_signal = 0;  ///< SIGTERM, where that or SIGUSR1 ended it; exit with 128 + this
  /// The checkpoint to go on from has as many steps as were asked for, or more: nothing was trained, and the model has
  /// the checkpoint's weights. Empty: something was trained.
  std::string already_complete;
};

struct PredictionOutput {
  at::Tensor predictions;  ///< in the dataset's order
  at::Tensor label_ids;    ///< undefined where there are no labels
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
/// The gradient is that of Σloss / Σcount over the whole global batch, whatever shares it: ranks, replicas, accumulated
/// micro-batches, short tails, tokens that do not count. Every sample comes once an epoch; the samples of an update
/// depend on the seed and the global batch size alone. See docs/reference/trainer.md.
///
/// All calls are collective: every rank makes the same ones. One thread at a time.
class Trainer {
 public:
  /// @throws UsageError  if the arguments make no sense, or something that they need is missing
  explicit Trainer(TrainerOptions options);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Trains to the end, or until a callback or SIGTERM stops it. Rank 0 takes the output folder (OutputFolderLock) and
  /// keeps it until this Trainer goes.
  /// @throws Error  as the model, the data, the ranks and the disk do; where another process trains into the folder
  TrainOutput train();

  /// Evaluates `dataset`, or `eval_dataset`: "eval_loss", "eval_" and each metric's name, "eval_runtime",
  /// "eval_samples_per_second", "eval_steps_per_second", "epoch". Exact for any number of ranks and any batch size.
  Logs evaluate(std::shared_ptr<const Dataset> dataset = nullptr, const std::string& metric_key_prefix = "eval");
  /// The same, with the outputs.
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
  /// Takes one away; nothing where it is not there.
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
