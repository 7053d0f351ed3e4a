#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "lockstep/base/random_stream.h"

namespace lockstep {

/// Where one CPU replica's random numbers come from during a forward.
struct ReplicaRandom {
  RandomStream stream;      ///< Lockstep's own layers
  at::Generator generator;  ///< LibTorch's operators
};

/// Seeds each of `replicas`, all by one number of LibTorch's generator: replicas draw different numbers, and a run
/// repeats after `torch::manual_seed`, whichever replica is faster.
void seed_replicas(std::vector<ReplicaRandom>& replicas, std::size_t count);

/// While it lives, the calling thread's operators that would draw from LibTorch's one CPU generator draw from `random`.
class ReplicaRandomGuard {
 public:
  explicit ReplicaRandomGuard(ReplicaRandom& random);
  ~ReplicaRandomGuard();
  ReplicaRandomGuard(const ReplicaRandomGuard&) = delete;
  ReplicaRandomGuard& operator=(const ReplicaRandomGuard&) = delete;

 private:
  RandomStreamGuard stream_;
  at::Generator* before_;
  c10::impl::IncludeDispatchKeyGuard key_;
};

}  // namespace lockstep
