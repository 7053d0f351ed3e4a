#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/data/dataset.h"
#include "lockstep/replicas/replica_device.h"
#include "lockstep/train/trainable_model.h"
#include "lockstep/train/weights/weight_shards.h"

namespace lockstep {

struct EvaluationOptions {
  std::int64_t batch_size = 8;        ///< samples per batch on each rank
  Collate collate{};                  ///< as DataLoaderOptions
  int num_workers = 0;                ///< as DataLoaderOptions
  bool keep_predictions = true;       ///< false: only the loss
  double label_smoothing_factor = 0;  ///< above 0: smooth the labels of the loss, as in training
  /// Above 0: each of so many slices has its own samples and batches, and the bits of the result do not depend
  /// on the number of ranks.
  std::int64_t virtual_shards = 0;
  /// Devices of copies of the model, which take batches in turn. Fewer than two: the model itself runs. Otherwise it
  /// must have a module.
  std::vector<ReplicaDevice> replicas{};
  /// The model, if ranks have its weights in shards: its forwards meet the other ranks', so a rank with fewer batches
  /// repeats a sample, whose results are dropped. Null: each rank has all weights.
  WeightShards* shards = nullptr;
  /// Called in the caller's thread for each batch, with the number of batches done and the number that this rank has.
  std::function<void(std::int64_t done, std::int64_t batches)> on_batch{};
};

/// The result of an evaluation, equal on all ranks.
struct EvaluationResult {
  at::Tensor predictions;  ///< in the dataset's order, on the CPU; undefined if they were not kept
  at::Tensor label_ids;    ///< "labels", likewise; undefined if the dataset has none
  double loss = 0;         ///< Σloss / Σcount over all samples, each once; NaN if Σcount is 0
  bool has_labels = false;
  std::int64_t samples = 0;
  std::int64_t steps = 0;  ///< batches of the rank that has most
  double runtime_s = 0;
};

/// Runs the model, in evaluation mode, over all samples, each on one rank. If it was in training mode, that is
/// restored. Results do not depend on `replicas`. Ranks may have different numbers of batches, or none; they
/// communicate once, at the end, and for weights in shards. Collective over `group`.
/// @param group  null: one process
/// @throws Error  as the model, the dataset and the communicator do
EvaluationResult evaluate_dataset(TrainableModel& model, const std::shared_ptr<const Dataset>& dataset,
                                  const EvaluationOptions& options, const std::shared_ptr<Communicator>& group);

}  // namespace lockstep
