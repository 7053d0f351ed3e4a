#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/replicas/replica_device.h"
#include "lockstep/train/trainable_model.h"
#include "lockstep/train/training_arguments.h"

namespace lockstep {

/// How one process, or the ranks of a job, share the work of an update. (ParallelMode is the name of OSLO's, in
/// parallel_context.h.)
enum class EngineKind { Single, DataParallel, DistributedDataParallel };

struct ParallelChoice {
  EngineKind kind = EngineKind::Single;
  std::int64_t replicas = 1;  ///< in this process
  std::string text;           ///< one line: what was chosen, and why
};

/// Ranks: DistributedDataParallel. One process and several replicas asked for, or a model on the first of several CUDA
/// devices: DataParallel. Else neither.
/// @param group  null: one process
/// @throws UsageError  where the arguments ask for what cannot be
ParallelChoice choose_engine(const TrainingArguments& args, TrainableModel& model, const Communicator* group);

/// Where the replicas of DataParallel are: the first ones of the kind that the model is on.
std::vector<ReplicaDevice> replica_devices(const ParallelChoice& choice, TrainableModel& model);

/// Turns micro-batches into gradients. One update is any number of `accumulate` and `accumulate_nothing`, of which the
/// last says so, the same number on every rank; then a step of the optimizer with `gradient_factor`.
class GradientEngine {
 public:
  virtual ~GradientEngine() = default;

  using Loss = std::function<LossSum(const at::Tensor& output, const Batch& batch)>;
  struct Pass {
    double loss_scale = 1;  ///< of the gradients: see GradScaler
    bool is_last = true;
  };
  /// Forward and backward; gradients of Σloss add up. @return  sum and count of this batch, without the graph
  virtual LossSum accumulate(const Batch& batch, const Loss& loss, const Pass& pass) = 0;
  /// Keeps step with the other ranks' `accumulate` where this one has no samples left: its part of the gradients is
  /// zero, whatever its data hold. No model is run, unless ranks meet in its forward (SyncBatchNorm).
  /// @param stand_in  makes some batch for a model that must be run; its values count for nothing
  virtual void accumulate_nothing(const std::function<Batch()>& /*stand_in*/, const Pass& /*pass*/) {}
  /// What gradients must be multiplied by to be those of Σloss / Σcount, where `count` is over all ranks.
  virtual double gradient_factor(std::int64_t count) const { return count == 0 ? 0 : 1 / static_cast<double>(count); }
  /// Lets ranks share the optimizer's work where they can. @return  how, as one line; empty where nothing is shared
  virtual std::string fuse(FlatOptimizer&) { return ""; }
  /// Ends the training: every rank has its own weights and the optimizer all of its state again. Collective.
  virtual void finish() {}
};

/// @param group  of DistributedDataParallel
std::unique_ptr<GradientEngine> make_gradient_engine(const ParallelChoice& choice, const TrainingArguments& args,
                                                     const std::shared_ptr<TrainableModel>& model,
                                                     const std::shared_ptr<Communicator>& group);

}  // namespace lockstep
