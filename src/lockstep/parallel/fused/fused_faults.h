#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/parallel/agreement/agreed_error.h"
#include "lockstep/parallel/fused/memory/published_copies.h"
#include "lockstep/parallel/update/update_context.h"

namespace lockstep {

/// Finds writes to weights and gradients that a fused update cannot follow, and reports them: here, or on all ranks.
class FusedFaults {
 public:
  /// What is given must outlive this object.
  FusedFaults(const UpdateContext& context, const std::unique_ptr<PublishedCopies>& copies);

  /// Looks at all weights and gradients. @return  whether there is a fault
  bool find();
  /// Adds what the last update has found about the copies. Call it after `find`. @return  whether there is a fault
  bool find_stale_copies();
  /// Adds faults of these parameters to those found.
  void add(const std::vector<std::size_t>& parameters, FusedFault fault);
  /// Throws if there is a fault here; the other ranks learn of it when their group ends.
  void throw_own();
  /// Exchanges what the ranks' `find` has found. Runs on every rank if one has found a fault.
  [[noreturn]] void throw_agreed();

 private:
  template <typename ErrorType>
  ErrorType error() const;

  const GradientBuckets& gradients_;
  const std::vector<FusedBucket>& buckets_;
  const FusedWatch& watch_;
  const std::unique_ptr<PublishedCopies>& copies_;  // null without copies
  Communicator& communicator_;
  std::vector<std::uint8_t> faults_;  // by parameter
};

}  // namespace lockstep
