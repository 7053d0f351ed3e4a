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
  int threads_per_replica = 0;  ///< threads of each CPU replica; 0: an even share of the cores
  bool pin_threads = true;      ///< keep each CPU replica on cores of its own, if there are enough
};

/// Describes one module of a set of replicas, for any kind of module.
struct ReplicaModule {
  std::vector<at::Tensor> parameters;  ///< in one order for all replicas; a tensor with two names is listed twice
  std::vector<at::Tensor> buffers;     ///< in one order for all replicas
  /// Returns the present tensors of the buffers; empty if the module never replaces its buffers.
  std::function<std::vector<at::Tensor>()> find_buffers;
  std::vector<std::string> names;  ///< names of the parameters, then of the buffers
  /// Copies training modes from replica 0, and returns whether any part of the module trains; empty for replica 0.
  std::function<bool()> copy_modes;
};

/// Replicas of one module that compute side by side in one process. Replica 0 is the module itself.
///
/// CPU replicas share the module's weights: the other replicas' parameters are the same memory, with gradients of their
/// own. Replicas on CUDA devices have copies, which are refreshed before each forward that trains and the first one
/// after it, and before others if the weights' versions show that they were written. Before
/// a forward, buffers are copied from replica 0 to the others if either side wrote to them; replica 0 keeps what its
/// forward writes.
///
/// If gradients are recorded, `apply` makes one step of the graph. Its backward runs each replica's backward on the
/// replica's own thread, then adds up the gradients in replica order, several slices in parallel, so that each run
/// gives the same bits. After Li et al., 2020, arXiv:2006.15704, section 2.2, and PyTorch's DataParallel.
class ReplicaSet {
 public:
  /// The computation of a replica: tensors to tensors.
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
  /// are the caller's. Differentiable in `inputs` and in the module's parameters; with create_graph the gradients are
  /// differentiable, too.
  /// @param inputs  at most `size()`, or it throws Error
  /// @throws the exception of the first replica, in order, that threw; its text names replica and device
  std::vector<std::vector<at::Tensor>> apply(const std::vector<std::vector<at::Tensor>>& inputs, const Body& body);

  /// Runs `work` on every replica at once, without a graph, until all have returned. For inference on whole batches.
  void run_all(const std::function<void(std::size_t replica)>& work);

  /// Call it if weights were written in a way that leaves no trace (`Tensor::data`, a kernel) while nothing trains: the
  /// next call copies all of them to replicas on other devices.
  void weights_changed();

  /// Records spans of each step in `trace` from now on, which must outlive its use; null ends the recording.
  void set_trace(StepTrace* trace);
  StepTrace* trace() const;

  /// The part of this object that a graph keeps alive.
  class State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace lockstep
