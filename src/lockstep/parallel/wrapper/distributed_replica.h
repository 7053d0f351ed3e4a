#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/detail/parallel/distributed_data_parallel_options.h"
#include "lockstep/detail/parallel/fused_step.h"
#include "lockstep/detail/tensor/module_tensors.h"
#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/parallel/communication_hook.h"
#include "lockstep/parallel/deferred/deferred_parameters.h"
#include "lockstep/parallel/fused/fused_update.h"
#include "lockstep/parallel/reducer/parameter_watch.h"
#include "lockstep/parallel/reducer/reducer.h"
#include "lockstep/parallel/slices/slices.h"
#include "lockstep/parallel/wrapped_module.h"

namespace lockstep {

class ShardedWeights;

/// What is behind one DistributedDataParallel: this rank's module, whose gradients the ranks average in backward, or in
/// the step of a fused optimizer.
class DistributedReplica {
 public:
  /// Collective. @throws Error  as DistributedDataParallel
  DistributedReplica(ModuleTensors tensors, DistributedDataParallelOptions options);
  DistributedReplica(const DistributedReplica&) = delete;
  DistributedReplica& operator=(const DistributedReplica&) = delete;

  // As DistributedDataParallel's.
  void before_forward();
  void after_forward() noexcept;
  void note_access();
  void follow_backward();
  void run_shards(std::uint64_t update, const std::function<void(std::int64_t shard)>& body);
  void register_hook(std::unique_ptr<CommunicationHook> hook);
  FusedStep fuse(FlatOptimizer& optimizer, FuseOptions options);
  FusedStep fused_step() const { return {fused_, fuse_reason_}; }

  Communicator& communicator() const { return *communicator_; }
  Reducer& reducer() const { return *reducer_; }
  const NamedParameters& names() const { return names_; }
  /// Those that are synchronised.
  const std::vector<NamedTensor>& parameters() const { return tensors_.parameters; }
  std::vector<at::Tensor> buffers() const;
  CommunicationHook* hook() const { return hook_; }       ///< null if none is registered
  const Slices* slices() const { return slices_.get(); }  ///< null without virtual shards
  /// The fused one; null if none is in force.
  FusedUpdate* update() const { return fused_ && *fused_ && (*fused_)->is_active() ? fused_->get() : nullptr; }
  /// False while a NoSync lives.
  const std::shared_ptr<bool>& synchronises() const { return synchronises_; }

  /// Rank `root`'s buffers to all ranks, if they are to be equal. Collective.
  void synchronise_buffers(int root);

 private:
  void make_equal(const std::vector<NamedTensor>& buffers);
  void watch_calls();
  void prepare_forward();
  void synchronise_deferred();
  void check_parameters();
  bool fused_memory_follows() const;
  std::string reason_not_to_fuse(const FlatOptimizer& optimizer, FuseOptions& options, const std::string& where) const;

  std::shared_ptr<Communicator> communicator_;
  DistributedDataParallelOptions options_;
  ModuleTensors tensors_;
  NamedParameters names_;  // of all parameters
  std::unique_ptr<WrappedModule> wrapped_;
  std::unique_ptr<ParameterWatch> watch_;       // of tensors_
  std::unique_ptr<DeferredOfModule> deferred_;  // null if no weight is to be synchronised when it is made
  std::shared_ptr<Reducer> reducer_;
  std::unique_ptr<Slices> slices_;                       // uses the reducer; null without virtual shards
  std::shared_ptr<std::unique_ptr<FusedUpdate>> fused_;  // uses both
  std::string fuse_reason_;
  CommunicationHook* hook_ = nullptr;  // the reducer's
  const std::shared_ptr<bool> synchronises_ = std::make_shared<bool>(true);
  bool has_buffers_ = false;
  bool gets_memory_later_ = false;  // of gradients, from `fuse`
};

/// Stage 3's weights of an update, which may be null; null if all weights are on this rank.
ShardedWeights* sharded_weights_of(const FusedUpdate* update);

}  // namespace lockstep
