#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/fused/fused_bucket.h"
#include "lockstep/parallel/fused/owned_gradients.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"

namespace lockstep {

/// The parameters that a call of clip_grad_norm_ concerns, and how often each is in its list.
class GradientSelection {
 public:
  explicit GradientSelection(std::size_t parameters) : counts_(parameters, 0) {}

  void clear();
  /// @throws Error  if a parameter is added more than 255 times
  void add(std::size_t parameter);
  int count(std::size_t parameter) const { return counts_[parameter]; }
  /// How many of the selected parameters have a mark; one that is listed twice counts twice. @param marks  by parameter
  double count_of(const std::vector<std::uint8_t>& marks) const;
  /// Whether a selected parameter has a mark. @param marks  by parameter
  bool any_of(const std::vector<std::uint8_t>& marks) const;
  /// Differs between different selections.
  std::uint64_t number() const;
  /// Sends `root`'s selection to all ranks. Collective.
  void broadcast(Communicator& communicator, int root);
  /// The selected part of `owned`, which is this rank's part of the bucket; what is listed twice, twice.
  /// @param contributed  empty: zeros do not matter. Else by parameter, and where it is 0 there is no gradient; gaps
  /// between parameters are left out, too
  std::vector<OwnedGradients> cut(const OwnedGradients& owned, const FusedBucket& bucket,
                                  const GradientBuckets& gradients,
                                  const std::vector<std::uint8_t>& contributed = {}) const;

 private:
  std::vector<std::uint8_t> counts_;  // by parameter
};

}  // namespace lockstep
