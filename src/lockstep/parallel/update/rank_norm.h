#pragma once

#include <cstddef>
#include <vector>

#include "lockstep/parallel/update/update_context.h"
#include "lockstep/parallel/update/update_norm.h"

namespace lockstep {

/// The norm of what each rank owns, added up over the ranks.
class RankNorm : public UpdateNorm {
 public:
  /// What is given must outlive this object.
  explicit RankNorm(UpdateContext& context) : context_(context) {}

  double of_all() override;
  double of(const GradientSelection& selection, const std::vector<std::size_t>& in_order, double p) override;

 private:
  UpdateContext& context_;
};

}  // namespace lockstep
