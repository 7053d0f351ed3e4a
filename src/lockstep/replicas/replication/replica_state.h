#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "lockstep/base/processor/compute_threads.h"
#include "lockstep/detail/replicas/replica_set.h"
#include "lockstep/replicas/replication/joined_tensors.h"
#include "lockstep/replicas/replication/replica_random.h"
#include "lockstep/replicas/replication/unseen_writes.h"
#include "lockstep/replicas/worker_threads.h"

namespace lockstep {

/// The state that replicas and their graphs share. The graphs keep it alive.
class ReplicaSet::State {
 public:
  /// One tensor of the module, and its counterpart in each replica.
  struct Parameter {
    std::string name;
    at::Tensor tensor;
    std::vector<std::vector<at::Tensor>>
        leaves;                           // [replica]; no leaf for replica 0; several if names are not tied there
    std::vector<std::uint32_t> versions;  // [replica], of the last copy; CUDA only
    std::vector<const void*> memories;    // [replica], of the last copy
  };

  State(std::vector<ReplicaModule> modules, std::vector<ReplicaDevice> replica_devices, const ReplicaOptions& options);

  /// Brings replicas 1 to count - 1 up to date with the module: training modes, weights, buffers.
  /// @return  whether any part of the module trains
  bool synchronise(std::size_t count);
  /// The next forward copies the weights to every device.
  void weights_changed() { weight_writes_.begin(true); }
  /// Runs `work(i)` for i < count on replica i's thread, with the caller's grad mode, autocast and so on, and the
  /// replica's device and threads; with `in_turn` in this thread, one after the other. Throws the exception of the
  /// first replica that failed. @param action  for its text and the trace
  void run(std::size_t count, const char* action, const std::function<void(std::size_t)>& work, bool in_turn = false);

  const std::vector<ReplicaDevice> devices;
  const ComputeShare share;
  std::vector<ReplicaModule> modules;
  std::vector<Parameter> parameters;  // each tensor once
  std::vector<ReplicaRandom> random;  // [replica], once needed
  StepTrace* trace = nullptr;
  WorkerThreads team;

 private:
  void check_alike() const;
  void check_placement() const;
  void collect_parameters();
  // Each function returns the bytes that it copied.
  std::int64_t refresh_weights(std::size_t replica, JoinedTensors& joined);
  std::int64_t copy_weights(std::size_t replica, JoinedTensors& joined, bool all);
  std::int64_t copy_buffers(std::size_t replica, JoinedTensors& joined, bool all);
  bool may_be_updated() const;

  UnseenWrites weight_writes_;
  UnseenWrites buffer_writes_;
  std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> buffer_versions_;  // [replica][buffer]: both sides
};

}  // namespace lockstep
