#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/replicas/replica_device.h"
#include "lockstep/replicas/step_trace.h"

namespace lockstep {

struct ReplicaOptions {
  int threads_per_replica = 0;  ///< of CPU replicas; 0: an even share of the cores
  bool pin_threads = true;      ///< keep each CPU replica on cores of its own, where there are enough
};

/// What a set of replicas needs to know of one of its modules, whatever the module's kind.
struct ReplicaModule {
  std::vector<at::Tensor> parameters;  ///< in the same order for every replica; a tensor with two names stands twice
  std::vector<at::Tensor> buffers;     ///< in the same order for every replica
  /// Asks anew which tensors the buffers are; empty for a module that keeps the same.
  std::function<std::vector<at::Tensor>()> find_buffers;
  std::vector<std::string> names;  ///< of parameters, then of buffers
  /// Takes over training modes from replica 0, and says whether any part of the module trains; empty for replica 0.
  std::function<bool()> copy_modes;
};

/// Replicas of one module that compute side by side in one process. Replica 0 is the module itself.
///
/// CPU replicas share the module's weights: the others' parameters are the same memory, with gradients of their own.
/// Those on CUDA devices have copies, which are refreshed before a forward if the weights were written to. Buffers are
/// copied to the others before a forward where either side wrote to them; what a forward writes to replica 0's stays.
///
/// `apply` in a mode that records gradients makes one step of the graph, whose backward runs each replica's backward on
/// the replica's own thread and adds the gradients up in replica order, slice by slice side by side: the same bits in
/// each run. After Li et al., 2020, arXiv:2006.15704, section 2.2, and PyTorch's DataParallel.
class ReplicaSet {
 public:
  /// What a replica computes: tensors from tensors.
  using Body = std::function<std::vector<at::Tensor>(std::size_t replica, const std::vector<at::Tensor>& inputs)>;

  /// @param modules  one per device
  /// @throws Error  if the modules differ, or a tensor of the module is not on the first device
  ReplicaSet(std::vector<ReplicaModule> modules, std::vector<ReplicaDevice> devices, ReplicaOptions options);
  ~ReplicaSet();
  ReplicaSet(const ReplicaSet&) = delete;
  ReplicaSet& operator=(const ReplicaSet&) = delete;

  std::size_t size() const;
  const std::vector<ReplicaDevice>& devices() const;
  int threads_per_replica() const;

  /// Runs `body` on replica i with `inputs[i]`, for all i at once. Grad mode, autocast, inference mode and CUDA streams
  /// are the caller's. Differentiable in `inputs` and the module's parameters, and so are the gradients (create_graph).
  /// @param inputs  at most `size()`, or it throws Error
  /// @throws what a replica threw, of the first in order if several did; its text names replica and device
  std::vector<std::vector<at::Tensor>> apply(const std::vector<std::vector<at::Tensor>>& inputs, const Body& body);

  /// Runs `work` on every replica at once, without a graph, until each returns. For inference that takes whole batches.
  void run_all(const std::function<void(std::size_t replica)>& work);

  /// From now on spans of each step go to `trace`, which must outlive its use; null ends it.
  void set_trace(StepTrace* trace);
  StepTrace* trace() const;

  /// The part that a graph keeps alive, beyond this object.
  class State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace lockstep
