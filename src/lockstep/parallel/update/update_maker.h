#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/optim/update/fused_segment.h"
#include "lockstep/parallel/fuse_options.h"
#include "lockstep/parallel/fused/agreement/update_terms.h"
#include "lockstep/parallel/fused/gradients/gradient_pool.h"
#include "lockstep/parallel/fused/recovery/recoverable_pass.h"
#include "lockstep/parallel/reducer/backward_watcher.h"
#include "lockstep/parallel/slices/slices.h"
#include "lockstep/parallel/update/update_context.h"
#include "lockstep/parallel/update/update_part.h"

namespace lockstep {

class ShardedCopies;

/// Makes a fused update: chooses buckets, fills the context, and makes the parts. It alone knows all features.
///
/// The order follows from what each step needs: gradients get their memory, the plan is made for that memory, weights
/// move to where the plan has them, parts watch them there, and the optimizer gets what it is to update.
class UpdateMaker {
 public:
  /// What is given must outlive this object. @param slices  null without slices
  UpdateMaker(UpdateContext& context, PartList& parts, FuseOptions options, const Slices* slices);

  /// Chooses the buckets. Collective.
  /// @return  why there can be no update, else empty
  /// @throws Error  on every rank, if options are wrong or ranks differ
  std::string refusal();
  /// Makes the update, and hands over the buckets and the optimizer's steps. Collective.
  /// @throws Error  if memory is short on some rank, and all ranks know it; or if the group has ended
  void make(StepDelegate& delegate);

 private:
  void check_options() const;
  void place_gradients();
  void share_out();
  void make_weights();
  std::vector<FusedSegment> make_segments();
  void make_gradients();
  void make_copies();

  UpdateContext& context_;
  PartList& parts_;
  FuseOptions options_;
  const Slices* const slices_;
  UpdateTerms* terms_ = nullptr;
  RecoverablePass* recovery_ = nullptr;        // null: lost ranks are not survived
  GradientPool pool_;                          // of stages 2 and 3
  BackwardWatcher* watcher_ = nullptr;         // the gradients, if they must know of every backward
  ShardedCopies* copies_of_shards_ = nullptr;  // null without copies, or if weights are whole
};

}  // namespace lockstep
