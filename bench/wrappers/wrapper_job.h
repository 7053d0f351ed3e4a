// The input of each training program of `lockstep bench wrappers`.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "bench/workers/timed_batches.h"
#include "lockstep/models/model.h"
#include "lockstep/replicas/replica_device.h"

namespace lockstep {

/// The work, equal for all programs: a model, and the batch of one step over all replicas.
class WrapperJob {
 public:
  /// @param batch  batch of one step; a rank takes its part of it
  WrapperJob(std::function<std::shared_ptr<Model>()> make_model, Batch batch, int replicas, MeasuredSteps measured);

  std::shared_ptr<Model> make_model() const { return make_model_(); }
  int replicas() const { return replicas_; }
  /// "cpu:0" etc., one for each replica.
  std::vector<ReplicaDevice> devices() const;
  /// The whole batch, repeatedly.
  TimedBatches& batches() { return batches(0, 1); }
  /// The part of `rank`, one of `world_size` equal parts. Ranks that are threads may call it concurrently.
  TimedBatches& batches(int rank, int world_size);

  /// The measurements of each rank in this process, or of the single loop.
  const std::vector<std::unique_ptr<TimedBatches>>& measured() const { return parts_; }

 private:
  std::function<std::shared_ptr<Model>()> make_model_;
  Batch batch_;
  int replicas_;
  MeasuredSteps steps_;
  std::vector<std::unique_ptr<TimedBatches>> parts_;  // by rank; null for ranks of other processes
};

// Each of these functions has its own file, complete, so that its lines can be counted.
void train_on_one_device(WrapperJob& job);
void train_by_data_parallel(WrapperJob& job);
void train_by_parallel_loss(WrapperJob& job);
void train_by_ddp_threads(WrapperJob& job);
void train_by_ddp_processes(WrapperJob& job);

}  // namespace lockstep
