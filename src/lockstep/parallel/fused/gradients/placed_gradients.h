#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/parallel/fused/gradients/fused_gradients.h"
#include "lockstep/parallel/update/update_context.h"

namespace lockstep {

/// Gradients that stay in their buckets: each has its place from its arrival until the update has used it.
class PlacedGradients final : public FusedGradients {
 public:
  /// What is given must outlive this object.
  explicit PlacedGradients(UpdateContext& context);

  void arrived(std::size_t parameter) override;
  bool starts_in_backward() const override;
  bool can_start(std::size_t) override { return true; }
  std::shared_ptr<Work> start(std::size_t bucket) override;
  void give_back(std::size_t parameter, const at::Tensor& late) override;
  void backward_ended(bool all_started) override;
  double take_waited_s() override { return 0; }

  /// Also brings the gradients to their buckets, and writes zeros for missing ones.
  void collect(std::vector<std::uint8_t>& contributed) override;
  bool are_summed() const override { return summed_ && *summed_ == versions(); }
  void take_slice_sums() override { slice_sums_ = versions(); }
  std::vector<std::size_t> without_slice_sum() const override;
  void sums_begun() override { summed_ = versions(); }
  void reduce(ReduceOp op, int active) override;
  void scale(std::size_t bucket, std::int64_t begin, std::int64_t end, double factor) override;
  std::size_t end_update(const std::vector<std::uint8_t>& contributed) override;
  void zero(bool is_done) override;
  void drop() override {}
  void notice_drop() override {}
  std::uint64_t writes() const override;
  std::vector<at::Tensor> gather() override { return {}; }
  void leave() override {}

 private:
  std::vector<std::uint64_t> versions() const;

  const UpdatePlan& plan_;
  GradientBuckets& gradients_;
  const std::vector<FusedBucket>& buckets_;
  FusedMemory& memory_;
  FusedWatch& watch_;
  std::vector<std::size_t> parameters_;  // in ascending order
  std::vector<std::uint8_t> held_;       // by parameter: this rank had a gradient when its bucket started
  std::uint64_t arrivals_ = 0;
  std::optional<std::vector<std::uint64_t>> slice_sums_;  // versions when slices had ended
  std::optional<std::vector<std::uint64_t>> summed_;      // versions when backward had added the gradients up
};

}  // namespace lockstep
