#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/detail/train/mixed_precision.h"
#include "lockstep/detail/train/trainer_options.h"
#include "lockstep/train/loop/evaluation.h"

namespace lockstep {

class ElasticRanks;
class TrainingFolder;

/// The state that the parts of one Trainer share. Internal.
struct TrainerContext {
  TrainerOptions options;
  MixedPrecision precision;
  std::shared_ptr<Communicator> group;  ///< null: one process
  bool is_rank = false;                 ///< a launcher or a process group made this process a rank, maybe the only one
  int rank_alone = 0;                   ///< what `rank` returns if there is no group
  std::shared_ptr<ElasticRanks> elastic;            ///< null unless lost ranks are to be survived
  std::shared_ptr<WeightShards> shards;             ///< the model's weights, if ranks have them in shards; else null
  std::shared_ptr<TrainingFolder> training_folder;  ///< that is written into; null before the training
  TrainerState state;
  TrainerControl control;
  std::shared_ptr<TrainerCallback> flow;  ///< precedes all others; null if nothing trains
  bool keeps_results = false;             ///< this Trainer has saved metrics before its training
  bool starts_over = false;               ///< its training began without a checkpoint
  double other_time_s = 0;                ///< seconds of evaluating and saving since the training began

  int rank() const { return group ? group->rank() : rank_alone; }
  int world_size() const { return group ? group->world_size() : 1; }
  /// Whether no lower rank of the group runs on this host. If ranks may be lost, that need not be local rank 0.
  bool is_first_of_host() const;
  const TrainingArguments& args() const { return options.args; }
  /// "rank 1 of 2, step 30", for errors and warnings.
  std::string where() const;

  using Event = void (TrainerCallback::*)(TrainerEvent&);
  void notify(Event event, const Logs* logs = nullptr, const std::string& folder = "");
  void notify_begin();
  void notify_prediction_step(std::int64_t done, std::int64_t batches);
  /// A flag that a callback sets on one rank is set on every rank. Collective.
  /// @param further  a flag of the trainer itself; null: there is none
  void agree_on_control(bool* further = nullptr);
  /// Stores the callbacks' states, and `seen`, in the trainer's state, as Hugging Face's "stateful_callbacks".
  void keep_callback_states(const TrainerControl& seen);
  void keep_states_of_callbacks();
  /// Gives callbacks the states that the trainer's state has of them.
  void load_callback_states() const;
  /// Adds "epoch" and the step, appends it to the history, and notifies callbacks.
  void log(Logs logs);
  /// Prints a line on rank 0.
  void print(const std::string& line) const;

  /// Evaluates, logs, and notifies callbacks by `event`.
  EvaluationResult evaluate(const std::shared_ptr<const Dataset>& dataset, const std::string& prefix, Event event,
                            Logs& metrics);
};

}  // namespace lockstep
