#pragma once

#include <exception>
#include <memory>

#include "lockstep/elastic/elastic_ranks.h"
#include "lockstep/parallel/fused/recovery/update_rescue.h"
#include "lockstep/train/loop/session_core.h"
#include "lockstep/train/survival/session_memory.h"

namespace lockstep {

/// The ranks of a training that survive others: they form the next group, and those that are behind, or new, get the
/// state of one that is not. Then all of them begin the stage again that was under way.
class SurvivingRanks : private ElasticClient {
 public:
  /// @param core  outlives this object; its context has ElasticRanks
  explicit SurvivingRanks(SessionCore& core);
  SurvivingRanks(const SurvivingRanks&) = delete;
  SurvivingRanks& operator=(const SurvivingRanks&) = delete;

  SessionMemory& memory() { return memory_; }
  UpdateRescue& rescue() { return rescue_; }
  /// This process takes a lost rank's place, and has no state yet.
  bool is_new() const { return elastic_.is_new(); }
  /// The other ranks have done the present stage, and this one has not.
  bool others_are_done() const { return others_are_done_; }
  void note_end_of_stage() { others_are_done_ = false; }

  /// After a failure in a stage. @throws  the failure, if no rank is lost
  void recover(const std::exception_ptr& failure);
  /// If the ranks have changed: brings them to one state, at the begin of a stage. Collective then.
  void settle_if_changed();
  /// Lets processes in that wait. Collective.
  void admit();

 private:
  void note_group();
  void settle();
  bool can_fuse(Communicator& group) override;
  void receive(Communicator& group, const Standing& standing, const KeptState& kept) override;
  void settle_finished(const Standing& standing);

  SessionCore& core_;
  TrainerContext& context_;
  TrainingParts& parts_;
  TrainingCheckpoints& checkpoints_;
  SessionState& state_;
  SessionEngine& engine_;
  ElasticRanks& elastic_;
  std::shared_ptr<JobMemoryMap> job_memory_;
  UpdateRescue& rescue_;
  SessionMemory memory_;
  bool others_are_done_ = false;
};

}  // namespace lockstep
