#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "lockstep/base/processor/compute_threads.h"
#include "lockstep/replicas/replica_set.h"
#include "lockstep/replicas/replication/replica_random.h"
#include "lockstep/replicas/worker_threads.h"

namespace lockstep {

/// What replicas and the graphs they made share. The graphs keep it alive.
class ReplicaSet::State {
 public:
  /// One tensor of the module, and what stands for it in each replica.
  struct Parameter {
    std::string name;
    at::Tensor tensor;
    std::vector<std::vector<at::Tensor>>
        leaves;                           // [replica]; none for replica 0; several where names are not tied there
    std::vector<std::uint32_t> versions;  // [replica] that were copied last; CUDA only
    std::vector<const void*> memories;    // [replica] the same of the memory
  };

  State(std::vector<ReplicaModule> modules, std::vector<ReplicaDevice> replica_devices, const ReplicaOptions& options);

  /// Brings replicas 1 to count - 1 up to the module: training modes, weights, buffers.
  /// @return  whether any part of them trains
  bool synchronise(std::size_t count);
  /// Runs `work(i)` for i < count on replica i's thread, with the caller's grad mode, autocast and so on, and the
  /// replica's device and threads. Throws what the first of them threw. @param action  for its text and the trace
  void run(std::size_t count, const char* action, const std::function<void(std::size_t)>& work);

  const std::vector<ReplicaDevice> devices;
  const ComputeShare share;
  std::vector<ReplicaModule> modules;
  std::vector<Parameter> parameters;  // each tensor once
  std::vector<ReplicaRandom> random;  // [replica], once it was needed
  StepTrace* trace = nullptr;
  WorkerThreads team;

 private:
  void check_alike() const;
  void check_placement() const;
  void collect_parameters();
  // Weights of one dtype behind each other in one piece, for all replicas that need the same.
  using Coalesced = std::unordered_map<int, std::pair<std::vector<const Parameter*>, at::Tensor>>;
  // Each returns the bytes that it copied.
  std::int64_t refresh_weights(std::size_t replica, Coalesced& coalesced);
  std::int64_t copy_weights(std::size_t replica, Coalesced& coalesced);
  std::int64_t copy_buffers(std::size_t replica, bool all);

  std::vector<bool> has_trained_;                                                      // [replica], in the last forward
  std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> buffer_versions_;  // [replica][buffer]: both sides
};

}  // namespace lockstep
