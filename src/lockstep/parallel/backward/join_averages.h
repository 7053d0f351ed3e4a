#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/parallel/backward/backward_context.h"
#include "lockstep/parallel/backward/backward_part.h"
#include "lockstep/parallel/backward/bucket_queue.h"

namespace lockstep {

/// Several synchronised backwards of one step while ranks join.
///
/// A backward adds to the averages that an earlier one left in `grad`. Without a join that is right: the average of
/// equal values is the value. A rank without inputs counts as zeros, though, so the earlier averages would shrink with
/// every further backward of the step, as they do in PyTorch. They are put aside, and added to the new averages.
class JoinAverages : public BackwardPart {
 public:
  JoinAverages(BackwardContext& context, BucketQueue& queue)
      : context_(context), queue_(queue), buckets_(queue.buckets()) {}
  void begins(BackwardFlags& mine) override;
  void check(const BackwardFlags& all) override;
  void restored() override;

 private:
  void note_averages();

  BackwardContext& context_;
  BucketQueue& queue_;
  GradientBuckets& buckets_;
  // By parameter: the version counter of its average, and averages that a backward has put aside.
  std::vector<std::optional<std::int64_t>> averages_;
  std::vector<at::Tensor> put_aside_;
};

}  // namespace lockstep
