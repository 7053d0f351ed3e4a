#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/agreement/agreed_error.h"
#include "lockstep/parallel/fused/fused_bucket.h"
#include "lockstep/parallel/fused/fused_watch.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"

namespace lockstep {

/// Finds writes to weights and gradients that a fused update cannot follow, and reports them: here, or on all ranks.
class FusedFaults {
 public:
  /// What is given must outlive this object.
  FusedFaults(const GradientBuckets& gradients, const std::vector<FusedBucket>& buckets, const FusedWatch& watch,
              Communicator& communicator);

  /// Looks at all weights and gradients, and forgets what was found before. @return  whether there is a fault
  bool find();
  /// Whether the last `find` has found one.
  bool has_found() const { return has_found_; }
  /// Adds a fault of a parameter to those found, in place of what was found there.
  void add(std::size_t parameter, FusedFault fault) { faults_[parameter] = static_cast<std::uint8_t>(fault); }
  /// The same, unless something was found there.
  void add_if_none(std::size_t parameter, FusedFault fault) {
    if (faults_[parameter] == 0) add(parameter, fault);
  }
  /// Whether there is any: found, or added since.
  bool any() const;
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
  Communicator& communicator_;
  std::vector<std::uint8_t> faults_;  // by parameter
  bool has_found_ = false;
};

}  // namespace lockstep
