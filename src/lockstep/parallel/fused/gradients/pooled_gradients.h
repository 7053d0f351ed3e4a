#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/parallel/fused/gradients/fused_gradients.h"
#include "lockstep/parallel/fused/gradients/gradient_pool.h"
#include "lockstep/parallel/reducer/backward_watcher.h"
#include "lockstep/parallel/update/update_context.h"

namespace lockstep {

/// Gradients that belong to their owner as soon as their bucket is reduced (Rajbhandari et al., 2020, arXiv:1910.02054,
/// stage 2). A gradient stays where autograd put it until its bucket is full and has its turn; then it is copied to the
/// bucket's slot of a pool, sent, and taken off its parameter, which shows a stand-in from then on. The owners add
/// further reductions to the sums that they keep.
class PooledGradients final : public FusedGradients, public BackwardWatcher {
 public:
  /// What is given must outlive this object.
  PooledGradients(UpdateContext& context, GradientPool pool);

  /// Tells the other ranks which sums this one keeps as an owner, if it has inputs.
  void look() override;
  void check() override;
  void take_up() override;

  void backward_begins() override;
  void backward_left() override;

  void arrived(std::size_t parameter) override;
  bool starts_in_backward() const override { return true; }
  bool can_start(std::size_t bucket) override;
  std::shared_ptr<Work> start(std::size_t bucket) override;
  void give_back(std::size_t parameter, const at::Tensor& late) override;
  void backward_ended(bool all_started) override;
  double take_waited_s() override;

  void collect(std::vector<std::uint8_t>& contributed) override;
  bool are_summed() const override;
  void reduce(ReduceOp op, int active) override;
  void scale(std::size_t, std::int64_t, std::int64_t, double) override {}  // all gradients are in sums then
  std::size_t end_update(const std::vector<std::uint8_t>& contributed) override;
  void zero(bool is_done) override;
  void drop() override;
  void notice_drop() override;
  std::uint64_t writes() const override;
  std::vector<at::Tensor> gather() override;
  void leave() override;

 private:
  std::shared_ptr<Work> send(std::size_t index, ReduceOp op, int active);
  void fill(const FusedBucket& bucket);
  void end_reductions();
  void show_all();
  bool has_more(std::size_t parameter) const;
  /// How many reductions are in the sums that owners keep, 0 if the program has dropped them; above 255 the number
  /// starts again at 1. Nothing if this rank cannot know, because it had no gradients. The other ranks then tell it.
  std::optional<std::uint8_t> kept_sums() const;

  Communicator& communicator_;
  GradientBuckets& gradients_;
  const std::vector<FusedBucket>& buckets_;
  FusedMemory& memory_;
  StandIns& stand_ins_;
  FusedWatch& watch_;
  UpdateAgreement& agreement_;
  const EqualSlot<std::uint8_t> kept_sums_slot_;  // must be equal on all ranks that know it
  WeightPlace& weights_;
  const bool gathers_weights_;  // reading a weight may wait for other ranks
  GradientPool pool_;
  std::vector<std::size_t> parameters_;  // in ascending order
  std::vector<at::Tensor> late_;         // by parameter: arrived after its bucket had started
  std::uint64_t arrivals_ = 0;
  std::uint8_t kept_sums_ = 0;
  bool has_dropped_ = false;  // since the last reduction
  bool in_backward_ = false;  // the stand-ins are off
  double waited_s_ = 0;
};

}  // namespace lockstep
