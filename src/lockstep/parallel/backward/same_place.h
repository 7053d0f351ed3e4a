#pragma once

#include <utility>
#include <vector>

#include "lockstep/detail/tensor/module_tensors.h"
#include "lockstep/parallel/agreement/frozen_parameters.h"
#include "lockstep/parallel/backward/backward_context.h"
#include "lockstep/parallel/backward/backward_part.h"
#include "lockstep/parallel/reducer/unused_forwards.h"

namespace lockstep {

// Parts by which ranks notice that they are in different places of the program.

/// All ranks must run the backward of the same module.
class SameModule : public BackwardPart {
 public:
  explicit SameModule(BackwardContext& context) : context_(context) {}
  void ends(BackwardFlags& mine) override;
  void check(const BackwardFlags& all) override;

 private:
  BackwardContext& context_;
};

/// All ranks must have frozen the same parameters since the module was wrapped.
class SameFrozen : public BackwardPart {
 public:
  SameFrozen(BackwardContext& context, std::vector<NamedTensor> trained)
      : context_(context), frozen_(std::move(trained)) {}
  void ends(BackwardFlags& mine) override;
  void check(const BackwardFlags& all) override;

 private:
  BackwardContext& context_;
  FrozenParameters frozen_;
};

/// All ranks should have left out as many batches since the last backward.
class SameBatches : public BackwardPart {
 public:
  explicit SameBatches(BackwardContext& context) : context_(context), forwards_(context.unused_forwards) {}
  void joins() override { forwards_.take(); }
  void ends(BackwardFlags& mine) override;
  void check(const BackwardFlags& all) override;

 private:
  BackwardContext& context_;
  UnusedForwards forwards_;  // since the last backward
};

/// All ranks must add up slices of the same update.
class SameUpdate : public BackwardPart {
 public:
  explicit SameUpdate(BackwardContext& context) : context_(context) {}
  void ends(BackwardFlags& mine) override;
  void check(const BackwardFlags& all) override;

 private:
  BackwardContext& context_;
};

}  // namespace lockstep
