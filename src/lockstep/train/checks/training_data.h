#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/data/data_digest.h"
#include "lockstep/parallel/agreement/setting_difference.h"
#include "lockstep/train/trainer_context.h"

namespace lockstep {

/// What a rank trains on, or evaluates: its samples, the names of its classes, the arguments by which ranks share them
/// out and meet, and the settings of its model. The ranks of a group must have it in common, and so must a process that
/// takes a lost rank's place, and a training that continues one from memory or a checkpoint.
class TrainingData {
 public:
  /// The training data of a Trainer, and its evaluation data.
  explicit TrainingData(const TrainerContext& context);
  /// The data of one evaluation. One process that no other one may join has none to compare it with, and reads nothing.
  TrainingData(const TrainerContext& context, std::shared_ptr<const Dataset> dataset, LookAt look);

  /// For other processes, and for a checkpoint: JSON.
  const std::string& text() const { return text_; }

  /// Compares the ranks of the group; null: does nothing. Collective.
  /// @throws UsageError  on every rank, with the files, the ranks and the first difference
  void require_on_all(const std::shared_ptr<Communicator>& group) const;
  /// For a process that takes a lost rank's place. @param of_ranks  the others' text
  /// @throws UsageError  with the file and the first difference
  void require_as_ranks(const std::string& of_ranks) const;
  /// How the data differ from those of a training in the job's memory; empty: not. @param of_memory  its text
  /// @throws UsageError  if it is a file of the same name, which has changed since the job began
  std::string change_since(const std::string& of_memory) const;
  /// For a training that continues one of a checkpoint. Samples are not compared if the arguments say that they are
  /// prepared otherwise. @param saved  the checkpoint's text; empty: an older version wrote it
  /// @return  warnings about the evaluation data and the model's settings
  /// @throws UsageError  with the file, the checkpoint and the first difference
  std::vector<std::string> require_as_saved(const std::string& saved, const std::string& path) const;

 private:
  struct Part {
    std::string what;  // "training data"
    std::shared_ptr<const Dataset> dataset;
    DataDigest digest;
  };
  struct Difference {
    SettingDifference setting;  // without a name: the samples of a part differ
    bool is_of_model = false;
    std::size_t part = 0;  // index in parts_
    DataDifference samples;
    bool are_samples() const { return setting.name.empty(); }
  };
  void finish(const TrainerContext& context);
  // Start: ranks that begin together; Ranks: a process that joins others; Past: the same training at an earlier time
  enum class Compared { Start, Ranks, Past };
  std::vector<Difference> differences(const std::string& own, const std::string& other, Compared what) const;
  void compare_samples(const nlohmann::json& mine, const nlohmann::json& theirs, std::vector<Difference>& found) const;
  std::string describe(const Difference& found, const std::string& mine, const std::string& theirs) const;
  std::string file_of(const Difference& found) const;

  std::vector<Part> parts_;
  std::string text_;
};

}  // namespace lockstep
