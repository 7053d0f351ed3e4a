#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/data/dataset.h"
#include "lockstep/replicas/replica_device.h"
#include "lockstep/train/trainable_model.h"

namespace lockstep {

struct EvaluationOptions {
  std::int64_t batch_size = 8;        ///< of each rank
  Collate collate{};                  ///< as DataLoaderOptions
  int num_workers = 0;                ///< as DataLoaderOptions
  bool keep_predictions = true;       ///< false: the loss alone
  double label_smoothing_factor = 0;  ///< above 0: of the loss, as in training
  /// Copies of the model, which take batches in turn; fewer than two: the model itself. It must have a module then.
  std::vector<ReplicaDevice> replicas{};
  /// Called in the caller's thread for each batch, with how many are done and how many this rank has.
  std::function<void(std::int64_t done, std::int64_t batches)> on_batch{};
};

/// What an evaluation found, the same on every rank.
struct EvaluationResult {
  at::Tensor predictions;  ///< in the dataset's order, on the CPU; undefined where they were not kept
  at::Tensor label_ids;    ///< the same of "labels"; undefined where there are none
  double loss = 0;         ///< Σloss / Σcount over all samples, each once; NaN where nothing counts
  bool has_labels = false;
  std::int64_t samples = 0;
  std::int64_t steps = 0;  ///< batches of the rank with most
  double runtime_s = 0;
};

/// Runs the model, in evaluation mode, over all samples, each on one rank; sets it back to training mode if it was in
/// it. Results do not depend on `replicas`. Ranks may have different numbers of batches, or none: they meet once, at
/// the end. Collective over `group`.
/// @param group  null: one process
/// @throws Error  as the model, the dataset and the communicator do
EvaluationResult evaluate_dataset(TrainableModel& model, const std::shared_ptr<const Dataset>& dataset,
                                  const EvaluationOptions& options, const std::shared_ptr<Communicator>& group);

/// `local` [n, ...] of all ranks as one tensor in the dataset's order, where rank r has samples r, r + world_size, ...
/// Other dimensions are padded with -100 to the longest. Collective.
at::Tensor gather_in_order(Communicator& group, const at::Tensor& local, std::int64_t samples);

/// Tensors [n_i, ...] one after the other; other dimensions are padded with -100 to the longest. Undefined for none.
at::Tensor concatenate_padded(const std::vector<at::Tensor>& parts);

}  // namespace lockstep
