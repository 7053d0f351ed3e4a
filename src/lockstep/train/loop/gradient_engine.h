#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/replicas/replica_device.h"
#include "lockstep/train/trainable_model.h"
#include "lockstep/train/training_arguments.h"

namespace lockstep {

class WeightShards;

/// How one process, or the ranks of a job, share the work of an update. (OSLO already has a ParallelMode, in
/// parallel_context.h.)
enum class EngineKind { Single, DataParallel, DistributedDataParallel, Slices };

struct ParallelChoice {
  EngineKind kind = EngineKind::Single;
  std::int64_t replicas = 1;  ///< in this process
  std::string text;           ///< one line: the choice and its reason
};

/// With slices: these, on one rank or several. Otherwise with ranks: DistributedDataParallel. In one process,
/// if several replicas are requested, or nobody made it a rank and the model is on the first of several CUDA devices:
/// DataParallel. Else neither.
/// @param group  null: one process
/// @param is_rank  a launcher or a process group made this process a rank, maybe the only one: it takes one device
/// @throws UsageError  if the arguments request something impossible
ParallelChoice choose_engine(const TrainingArguments& args, TrainableModel& model, const Communicator* group,
                             bool is_rank);

/// Refuses what `choose_engine` refuses in a job of `ranks` ranks, whatever the model. @throws UsageError
void require_engine_for(int ranks, const TrainingArguments& args);

/// The devices of DataParallel's replicas: the first ones of the kind that the model is on.
std::vector<ReplicaDevice> replica_devices(const ParallelChoice& choice, TrainableModel& model);

/// Turns micro-batches into gradients. One update consists of calls of `run` and `run_without_samples`, as many on
/// every rank, of which the last is marked as such; then a step of the optimizer with `gradient_factor`.
class GradientEngine {
 public:
  /// @param label_smoothing_factor  above 0: smooths the labels of the loss
  GradientEngine(std::shared_ptr<TrainableModel> model, double label_smoothing_factor)
      : model_(std::move(model)), label_smoothing_factor_(label_smoothing_factor) {}
  virtual ~GradientEngine() = default;

  /// How one micro-batch is run.
  struct MicroBatch {
    double loss_scale = 1;  ///< factor of the gradients: see GradScaler
    bool is_last = true;    ///< of its update
  };
  /// Runs forward and backward; the gradients of Σloss add up. @return  sum and count of this batch, detached
  virtual LossSum run(const Batch& batch, const MicroBatch& how) = 0;
  /// Keeps step with the other ranks' `run` when this rank has no samples left: its part of the gradients is zero. No
  /// model is run, unless ranks communicate in its forward (SyncBatchNorm) or in its loss.
  /// @param stand_in  makes a batch for a model that must be run; its values have no effect
  virtual void run_without_samples(const std::function<Batch()>& /*stand_in*/, const MicroBatch& /*how*/) {}
  /// With slices, one update is one call of this in place of the above: calls `body` for each slice of this
  /// rank, and `body` calls `run` if the slice has samples. Collective. @param update  as
  /// DistributedDataParallel::run_shards
  virtual void run_slices(std::uint64_t update, const std::function<void(std::int64_t slice)>& body);
  /// The factor that turns the gradients into those of Σloss / Σcount, where `count` is the sum over all ranks.
  virtual double gradient_factor(std::int64_t count) const { return count == 0 ? 0 : 1 / static_cast<double>(count); }
  /// Lets ranks share the optimizer's work if they can. @return  how, as one line; empty if nothing is shared
  virtual std::string fuse(FlatOptimizer&) { return ""; }
  /// Undoes `fuse`: each rank has all weights and the whole state again. Collective.
  virtual void unfuse() {}
  /// Seconds for which this rank waited for others in the last update's exchanges.
  virtual double waited_s() const { return 0; }
  /// The weights, if the ranks have them in shards; else null.
  virtual WeightShards* weight_shards() { return nullptr; }
  /// Ends the training: every rank gets its own weights, unless they are in shards. The optimizer, which nobody needs
  /// any more, cannot step again. Collective.
  virtual void finish() {}

 protected:
  static void backward_scaled(const at::Tensor& sum, const MicroBatch& how) {
    (how.loss_scale == 1 ? sum : sum.mul(how.loss_scale)).backward();
  }
  TrainableModel& model() const { return *model_; }
  /// The loss of an output of the model, or of a replica. May be called from any thread.
  LossSum loss_of(const at::Tensor& output, const Batch& batch) const {
    return label_smoothing_factor_ > 0 ? model_->smoothed_loss(output, batch, label_smoothing_factor_)
                                       : model_->loss(output, batch);
  }

 private:
  std::shared_ptr<TrainableModel> model_;
  double label_smoothing_factor_;
};

/// @param group  for DistributedDataParallel
std::unique_ptr<GradientEngine> make_gradient_engine(const ParallelChoice& choice, const TrainingArguments& args,
                                                     const std::shared_ptr<TrainableModel>& model,
                                                     const std::shared_ptr<Communicator>& group,
                                                     bool are_level = false);

}  // namespace lockstep
