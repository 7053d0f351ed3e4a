#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstddef>
#include <mutex>
#include <vector>

#include "lockstep/base/random_stream.h"

namespace lockstep {

/// Where one CPU replica's random numbers come from during a forward.
struct ReplicaRandom {
  RandomStream stream;      ///< Lockstep's own layers
  at::Generator generator;  ///< LibTorch's operators
};

/// Seeds replicas for one forward, all by one number of LibTorch's generator: replicas draw different numbers, and a
/// run repeats after `torch::manual_seed`, whichever replica is faster. That number is drawn when it is asked for, or a
/// replica first draws: a forward that draws nothing leaves LibTorch's generator as it was.
class ReplicaSeed {
 public:
  /// @param replicas  grows to `count`
  ReplicaSeed(std::vector<ReplicaRandom>& replicas, std::size_t count);
  ReplicaSeed(const ReplicaSeed&) = delete;
  ReplicaSeed& operator=(const ReplicaSeed&) = delete;

  /// Seeds all replicas, once. Any thread may call it.
  void draw();

 private:
  std::vector<ReplicaRandom>& replicas_;
  const std::size_t count_;
  std::once_flag once_;
};

/// While it lives, the calling thread's operators that would draw from LibTorch's one CPU generator draw from `random`,
/// and, where the module trains, Lockstep's own layers from its stream.
class ReplicaRandomGuard {
 public:
  /// @param seed  of this forward, drawn already where the module trains
  ReplicaRandomGuard(ReplicaRandom& random, ReplicaSeed& seed, bool trains);
  ~ReplicaRandomGuard();
  ReplicaRandomGuard(const ReplicaRandomGuard&) = delete;
  ReplicaRandomGuard& operator=(const ReplicaRandomGuard&) = delete;

 private:
  RandomStreamGuard stream_;
  at::Generator* before_;
  ReplicaSeed* seed_before_;
  c10::impl::IncludeDispatchKeyGuard key_;
};

}  // namespace lockstep
