#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lockstep/elastic/fields.h"
#include "lockstep/elastic/training_memory.h"
#include "lockstep/parallel/fused/recovery/update_rescue.h"
#include "lockstep/train/loop/session_core.h"

namespace lockstep {

/// What a training that survives lost ranks keeps in the memory of its job, and how it continues from there when all
/// ranks have ended and the launcher has started them again.
class SessionMemory {
 public:
  /// @param job  null: the launcher keeps none. The others outlive this object.
  SessionMemory(SessionCore& core, UpdateRescue& rescue, std::shared_ptr<JobMemoryMap> job);

  /// As TrainingMemory's.
  const std::string& purpose() const { return memory_.purpose(); }
  void set_purpose(std::string purpose) { memory_.set_purpose(std::move(purpose)); }

  /// Whether all ranks have ended before, and left this training in the job's memory. Collective.
  bool finds_place();
  /// Continues there. Collective.
  void continue_training();

  /// By the first rank, before an update.
  void keep_place();
  /// By the first rank, before the optimizer's step.
  void keep_update(const UpdateTotals& totals);
  /// A training that has failed by itself would fail there again.
  void note_failure(const std::exception_ptr& failure);

 private:
  std::string digest_of_training() const;
  bool keeps_places() const;
  const std::string& log_bytes();
  void finish_update(const TrainingMemory::Place& place);

  SessionCore& core_;
  TrainerContext& context_;
  TrainableModel& model_;
  TrainingParts& parts_;
  TrainingUpdate& update_;
  SessionState& state_;
  UpdateRescue& rescue_;
  std::shared_ptr<JobMemoryMap> job_memory_;
  TrainingMemory memory_;
  FieldWriter log_;                  // of the history's first entries
  std::size_t written_entries_ = 0;  // their number
  std::optional<std::uint64_t> digest_of_untrained_;
};

}  // namespace lockstep
