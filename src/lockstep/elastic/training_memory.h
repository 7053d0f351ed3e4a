#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/parallel/fused/recovery/job_memory_map.h"

namespace lockstep {

/// What a training keeps in the memory of its job beside weights and optimizer, so that it continues when all ranks
/// have ended and are started again: its place before each update, and what the update adds to it.
class TrainingMemory {
 public:
  /// @param job  null: nothing is kept
  /// @param data  TrainingData::text
  explicit TrainingMemory(std::shared_ptr<JobMemoryMap> job, std::string purpose = "", std::string data = "");

  /// What the training is, as a digest: one of another purpose cannot continue it. Equal on all ranks.
  const std::string& purpose() const { return purpose_; }
  void set_purpose(std::string purpose) { purpose_ = std::move(purpose); }

  /// The training before an update.
  struct Place {
    std::string text;                                    ///< as a rank passes it on to others, without its log
    std::int64_t position = 0;                           ///< see Survival
    std::vector<std::map<std::string, double>> options;  ///< of the optimizer's groups
    std::string log;
    std::vector<std::byte> buffers;  ///< of the model
    std::uint64_t untrained = 0;     ///< digest of the weights that are not trained: the memory does not have them
    std::uint64_t updates = 0;       ///< that the weights in memory have seen
  };
  /// Keeps a place. One rank at a time; once weights and state are in the memory. @param step  of the training
  /// @param log  in place of the place's: as before, or longer
  void keep(const Place& place, const std::string& log, std::int64_t step);

  /// What an update adds, once its gradients are known.
  struct KeptUpdate {
    std::string text;
    std::vector<std::byte> buffers;
  };
  /// Keeps what the update that comes next adds. One rank, before the optimizer's step.
  void keep_update(const KeptUpdate& update);

  /// Whether an earlier start of the ranks has kept a place of this training. @param why_not  gets the reason if there
  /// is one that this training cannot use
  bool has_place(std::string& why_not) const;
  /// The data of the training whose place was kept, whatever its purpose; nothing if there is no place.
  std::optional<std::string> kept_data() const;
  Place place() const;
  /// What the update adds that comes after `place`. @throws Error  if there is none
  KeptUpdate kept_update(const Place& place) const;
  /// Updates that the weights in memory have seen now.
  std::uint64_t updates() const { return job_->header().number.load(); }
  /// The training has failed by itself: another start is not to begin where it failed.
  void withdraw();

 private:
  void give_up(const std::string& why);
  bool may_begin() const;

  std::shared_ptr<JobMemoryMap> job_;
  std::string purpose_;
  std::string data_;
  bool has_given_up_ = false;  // the process's log says so
};

/// 128 bits of a text: two trainings that a program may mean differ in it.
std::string purpose_digest(const std::string& text);

/// The content of tensors, one after the other, and back.
std::vector<std::byte> bytes_of(const std::vector<at::Tensor>& tensors);
/// @throws Error  if they are not as many
std::vector<at::Tensor> tensors_of_bytes(const std::vector<std::byte>& bytes, const std::vector<at::Tensor>& like);

}  // namespace lockstep
