#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/parallel/slices/one_thread.h"
#include "lockstep/replicas/replication/replica_random.h"

namespace lockstep {

/// What a slice's computation depends on besides weights and samples: the random numbers that it draws, the number of
/// threads, because sums over elements are cut by threads, and how often a TorchScript module has run, because LibTorch
/// fuses operators after the first forwards.
class SliceSurroundings {
 public:
  /// While it lives, the calling thread computes with one thread and draws random numbers that are a function of
  /// (update, slice).
  class Scope {
   public:
    Scope(std::vector<ReplicaRandom>& random, std::uint64_t seed);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    OneThread one_thread_;
    bool fused_scripts_before_;
    ReplicaSeed seed_;
    std::optional<ReplicaRandomGuard> guard_;
  };
  Scope enter(std::uint64_t update, std::int64_t slice);

 private:
  std::vector<ReplicaRandom> random_;
};

}  // namespace lockstep
