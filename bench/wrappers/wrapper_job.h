// What each training program of `lockstep bench wrappers` is given.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "bench/workers/timed_batches.h"
#include "lockstep/models/model.h"
#include "lockstep/replicas/replica_device.h"

namespace lockstep {

/// The work, the same for all: a model and the batch of one step over all replicas.
class WrapperJob {
 public:
  /// @param batch  of one step; a rank takes its part of it
  WrapperJob(std::function<std::shared_ptr<Model>()> make_model, Batch batch, int replicas, MeasuredSteps measured);

  std::shared_ptr<Model> make_model() const { return make_model_(); }
  int replicas() const { return replicas_; }
  /// "cpu:0" and so on, one for each replica.
  std::vector<ReplicaDevice> devices() const;
  /// The whole batch, again and again.
  TimedBatches& batches() { return batches(0, 1); }
  /// The part of `rank`, one of `world_size` of equal size. Ranks that are threads may call at once.
  TimedBatches& batches(int rank, int world_size);

  /// What was measured: of each rank that is in this process, or of the one loop.
  const std::vector<std::unique_ptr<TimedBatches>>& measured() const { return parts_; }

 private:
  std::function<std::shared_ptr<Model>()> make_model_;
  Batch batch_;
  int replicas_;
  MeasuredSteps steps_;
  std::vector<std::unique_ptr<TimedBatches>> parts_;  // by rank; null for those of other processes
};

// Each of these stands in a file of its own, whole, so that its lines can be counted.
void train_on_one_device(WrapperJob& job);
void train_by_data_parallel(WrapperJob& job);
void train_by_parallel_loss(WrapperJob& job);
void train_by_ddp_threads(WrapperJob& job);
void train_by_ddp_processes(WrapperJob& job);

}  // namespace lockstep
