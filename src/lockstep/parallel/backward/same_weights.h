#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "lockstep/detail/tensor/module_tensors.h"
#include "lockstep/parallel/backward/backward_context.h"
#include "lockstep/parallel/backward/backward_part.h"

namespace lockstep {

// Parts by which ranks notice that their weights differ. Not while ranks join, because ranks that have run out of
// inputs have older weights.

/// If a rank's parameters got other memory, they must have the same values on all ranks.
class SameLoadedWeights : public BackwardPart {
 public:
  SameLoadedWeights(BackwardContext& context, std::vector<NamedTensor> dense)
      : context_(context), parameters_(std::move(dense)) {}
  void moved(std::size_t dense, std::size_t sparse) override;
  void begins(BackwardFlags& mine) override;
  void check(const BackwardFlags& all) override;

 private:
  BackwardContext& context_;
  std::vector<NamedTensor> parameters_;
  bool moved_ = false;  // and the ranks have not compared since
};

/// The replicas must not drift apart: see ReplicaWatch.
class SameReplicas : public BackwardPart {
 public:
  explicit SameReplicas(BackwardContext& context) : context_(context) {}
  void ends(BackwardFlags& mine) override;
  void check(const BackwardFlags& all) override;

 private:
  BackwardContext& context_;
};

}  // namespace lockstep
