#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/parallel/backward/backward_context.h"
#include "lockstep/parallel/backward/backward_part.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"

namespace lockstep {

/// Several synchronised backwards of one step while ranks join.
///
/// A backward adds to the averages that an earlier one left in `grad`. Without a join that is right: the average of
/// equal values is the value. A rank without inputs counts as zeros, though, so the earlier averages would shrink with
/// every further backward of the step, as they do in PyTorch. They are put aside, and added to the new averages.
class JoinAverages : public BackwardPart {
 public:
  /// @param is_kept  by parameter: the fused update keeps its gradient, and no average is in `grad`
  JoinAverages(BackwardContext& context, GradientBuckets& buckets, std::function<bool(std::size_t)> is_kept)
      : context_(context), buckets_(buckets), is_kept_(std::move(is_kept)) {}
  void begins(BackwardFlags& mine) override;
  void check(const BackwardFlags& all) override;
  void restored() override;

 private:
  void note_averages();

  BackwardContext& context_;
  GradientBuckets& buckets_;
  std::function<bool(std::size_t)> is_kept_;
  // By parameter: the version counter of its average, and averages that a backward has put aside.
  std::vector<std::optional<std::int64_t>> averages_;
  std::vector<at::Tensor> put_aside_;
};

}  // namespace lockstep
