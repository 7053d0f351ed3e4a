#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "lockstep/base/random/random_stream.h"

namespace lockstep {

/// The source of one CPU replica's random numbers during a forward.
struct ReplicaRandom {
  RandomStream stream;      ///< for Lockstep's own layers
  at::Generator generator;  ///< for LibTorch's operators
};

/// Seeds all replicas for one forward from one number of LibTorch's generator. Replicas draw different numbers, and
/// after `torch::manual_seed` a run repeats, in whichever order replicas run. The number is drawn on request, or when a
/// replica first draws: a forward that draws nothing leaves LibTorch's generator unchanged.
class ReplicaSeed {
 public:
  /// @param replicas  grows to `count`
  ReplicaSeed(std::vector<ReplicaRandom>& replicas, std::size_t count);
  /// Seeds them from `number` instead.
  ReplicaSeed(std::vector<ReplicaRandom>& replicas, std::size_t count, std::uint64_t number);
  ReplicaSeed(const ReplicaSeed&) = delete;
  ReplicaSeed& operator=(const ReplicaSeed&) = delete;

  /// Seeds all replicas, once. Any thread may call it.
  void draw();

 private:
  std::vector<ReplicaRandom>& replicas_;
  const std::size_t count_;
  const std::optional<std::uint64_t> number_;
  std::once_flag once_;
};

/// While it lives, `random` replaces LibTorch's single CPU generator for the operators of the calling thread. If the
/// module trains, Lockstep's own layers draw from its stream.
class ReplicaRandomGuard {
 public:
  /// @param seed  of this forward; already drawn if the module trains
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
