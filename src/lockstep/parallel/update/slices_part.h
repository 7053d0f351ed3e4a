#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/parallel/fuse_options.h"
#include "lockstep/parallel/update/rank_norm.h"
#include "lockstep/parallel/update/update_context.h"
#include "lockstep/parallel/update/update_part.h"

namespace lockstep {

/// An update of gradients that are sums of slices: the ranks must be in the same update of `run_shards`, and each
/// gradient must be what that has left. It comes before other parts, since what they compare depends on the update.
class SlicesPart final : public UpdatePart {
 public:
  /// @return  why these gradients cannot be fused, else empty
  static std::string refusal(const UpdateContext& context, const FuseOptions& options);

  /// What is given must outlive this object.
  explicit SlicesPart(UpdateContext& context);

  void look() override;
  void check() override;

 private:
  UpdateContext& context_;
  const EqualSlot<std::uint64_t> update_;
};

/// Norms of the average over all slices, whose bits do not depend on the number of ranks.
class SliceNorm final : public RankNorm {
 public:
  /// What is given must outlive this object.
  explicit SliceNorm(UpdateContext& context) : RankNorm(context), context_(context) {}

  double of_all() override;
  double of(const GradientSelection& selection, const std::vector<std::size_t>& in_order, double p) override;
  bool depends_on_order() const override { return true; }

 private:
  double whole(const std::vector<std::size_t>& parameters);

  UpdateContext& context_;
};

}  // namespace lockstep
