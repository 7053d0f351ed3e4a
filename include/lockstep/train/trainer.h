#pragma once

#include <memory>
#include <string>

#include "lockstep/data/dataset.h"
#include "lockstep/detail/train/train_output.h"
#include "lockstep/detail/train/trainer_options.h"
#include "lockstep/train/trainable_model.h"
#include "lockstep/train/trainer_callback.h"
#include "lockstep/train/training_arguments.h"

namespace lockstep {

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

  /// Trains until the end, or until a callback, Ctrl-C, SIGTERM or a warning (SIGUSR1) stops it. Rank 0 locks the
  /// output folder until this Trainer is destroyed.
  /// @throws Error  as the model, the data, the ranks and the disk do; and if another process trains into the folder
  TrainOutput train();

  /// Evaluates `dataset`, or `eval_dataset`. Returns "eval_loss", "eval_" with each metric's name, "eval_runtime",
  /// "eval_samples_per_second", "eval_steps_per_second" and "epoch". Exact for any number of ranks and any batch size.
  Logs evaluate(std::shared_ptr<const Dataset> dataset = nullptr, const std::string& metric_key_prefix = "eval");
  /// Evaluates, and returns the outputs too.
  PredictionOutput predict(const std::shared_ptr<const Dataset>& dataset,
                           const std::string& metric_key_prefix = "test");

  /// With fsdp full_shard on several hosts each rank has a share of the weights alone, during the training and after
  /// it. Trainer's own calls work with shares. A program that reads the weights itself calls `unshard` before, on every
  /// rank: it gathers all of them, in memory for all, until `reshard`, the next evaluation, save or update, or the
  /// Trainer's end, after which each rank keeps them. Without full_shard it does nothing. Collective.
  void unshard();
  /// Frees the weights of other ranks again.
  void reshard();
  /// Writes the weights and the model's files into `folder` (default: output_dir), on rank 0. Weights in shards are
  /// sent to rank 0 piece by piece.
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
