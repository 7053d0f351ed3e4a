#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "lockstep/parallel/fused/recovery/host_copy.h"
#include "lockstep/parallel/fused/recovery/memory_hosts.h"
#include "lockstep/parallel/fused/recovery/recoverable_update.h"
#include "lockstep/parallel/fused/recovery/sum_exchange.h"
#include "lockstep/parallel/fused/recovery/update_rescue.h"
#include "lockstep/parallel/update/update_context.h"
#include "lockstep/parallel/update/update_pass.h"

namespace lockstep {

/// Each host makes the whole update, in memory that outlives the ranks: those that are left finish it for lost ones.
class RecoverablePass final : public UpdatePass {
 public:
  /// What is given must outlive this object. @param most_ranks  slices of a batch
  RecoverablePass(UpdateContext& context, UpdateRescue& rescue, std::int64_t most_ranks);

  // To be made, in this order:
  /// Gradients, their sums and weights get memory that outlives the ranks. Collective.
  void open_memory();
  const MemoryHosts& hosts() const { return hosts_; }
  /// Whether the weights are in that memory already.
  bool has_weights() const { return rescue_.adopts(); }
  void weights_are_here() { state_->weights_are_here(); }
  /// Copies lie in memory of an engine that shares it among all ranks; if it does not, rank 0 logs that there are none.
  bool may_publish_copies() const;
  /// State gets memory that outlives the ranks. @param segments  what this rank updates, without state
  void place_state(std::vector<FusedSegment>& segments);
  /// The optimizer has the segments: finishes what an earlier group has decided, and begins. Collective.
  void begin();

  void prepare() override;
  void decide(const UpdateNote& note, bool has_met) override;
  bool runs_without_gradients() const override { return true; }
  bool scales_gradients() const override { return false; }  // survivors may need them as backward left them
  void run(std::size_t bucket, const SegmentUpdate& update) override { recovery_->update_own(bucket, update); }
  void end(const UpdateNote& note) override { recovery_->end(note); }
  /// If a rank is lost, this rank leaves the group and what is fused, with the weights that all survivors have.
  StepResult after(const std::exception_ptr& failure) override;

  bool memory_stays() const override { return rescue_.memory_stays(); }
  NamedState whole_state(const NamedParameters& names) const override { return state_->whole(names); }
  void let_go() override { rescue_.let_go(); }
  void leave() override;
  bool stays_unmade(bool group_has_ended) const override { return rescue_.adopts() && group_has_ended; }
  void abandon(const std::exception_ptr& failure, bool group_has_ended) override;

 private:
  void copy_counts();
  void fill(const at::Tensor& memory);
  void check_hosts();

  UpdateContext& context_;
  UpdateRescue& rescue_;
  const std::int64_t most_ranks_;
  MemoryHosts hosts_;
  std::unique_ptr<HostCopy> host_copy_;
  std::shared_ptr<LastingMemory> lasting_;
  std::shared_ptr<SharedState> state_;
  std::unique_ptr<RecoverableUpdate> recovery_;
  std::unique_ptr<SumExchange> sum_exchange_;  // between hosts
};

}  // namespace lockstep
