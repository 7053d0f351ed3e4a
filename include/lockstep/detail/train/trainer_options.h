#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
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

/// Everything that a Trainer needs.
struct TrainerOptions {
  std::shared_ptr<TrainableModel> model;  ///< required, unless model_init is given
  /// Makes the model, in place of `model`: called after the generator has been seeded with args.seed, when the Trainer
  /// is constructed and before each further `train`. With fsdp full_shard on several ranks its weights are deferred
  /// (see deferred.h), so that no rank ever holds all of them.
  std::function<std::shared_ptr<TrainableModel>()> model_init{};
  TrainingArguments args{};
  std::shared_ptr<const Dataset> train_dataset{};  ///< required by `train`
  std::shared_ptr<const Dataset> eval_dataset{};   ///< required unless eval_strategy is "no"
  Collate data_collator{};                         ///< empty: samples are stacked
  ComputeMetrics compute_metrics{};                ///< if empty, evaluation reports only the loss
  /// The names that compute_metrics returns. If given, an unknown metric_for_best_model is rejected before training
  /// starts; else after the first evaluation.
  std::vector<std::string> metric_names{};
  std::vector<std::int64_t> lengths{};                  ///< tokens of each training sample; required by group_by_length
  std::function<void(std::int64_t epoch)> set_epoch{};  ///< called before each epoch: for collators that draw masks
  std::vector<std::shared_ptr<TrainerCallback>> callbacks{};
  std::vector<std::string> facts{};     ///< about the data or the model: lines of the block that a training begins with
  std::vector<std::string> warnings{};  ///< the same as warnings, at the end of that block
  /// A JSON object with further settings that determine the samples, such as a maximal length. Checkpoints keep it, and
  /// a resumed training warns about values that differ.
  nlohmann::json data_arguments = nlohmann::json::object();
  /// The files that the datasets were read from: errors name them when ranks have read different data. Empty: unknown.
  std::string train_file{}, eval_file{};
  bool print_logs = true;        ///< add a PrinterCallback; false if another callback shows the logs
  PrintLine print = print_line;  ///< prints lines on rank 0: logs and startup messages; empty: no output
  /// The ranks. Default: the group of init_process_group. If that does not exist but a launcher's environment does
  /// (WORLD_SIZE above 1), the trainer calls init_process_group; else it is one process.
  std::shared_ptr<Communicator> process_group{};
};

}  // namespace lockstep
