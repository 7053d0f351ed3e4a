#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// The arguments of PyTorch's SyncBatchNorm, under their names and with their defaults.
struct SyncBatchNormOptions {
  SyncBatchNormOptions(std::int64_t features) : num_features(features) {}  // NOLINT: as LibTorch's options
  std::int64_t num_features;                                               ///< channels
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;  ///< none: the averages are over all batches so far
  bool affine = true;
  bool track_running_stats = true;
  std::shared_ptr<Communicator>
      process_group;  ///< of these ranks; default: that of init_process_group, if there is one
};

/// Batch normalisation over the batches of all ranks together, as one process would over the whole batch: for small
/// batches, whose own mean and variance are rough. Input [n, channels] or [n, channels, ...]; ranks' batches may differ
/// in size, and one of them may be empty. Parameters and buffers have BatchNorm's names, so that either loads the
/// other's state. Evaluates, and trains where there is no group or one rank, as BatchNorm does.
///
/// Collective in training: a gather of 2 channels + 1 numbers in forward, a sum of 2 channels in backward, in the order
/// in which the model computes; every rank runs the same layers. What they send has a group, and so an order, of its
/// own, which comes up in the first forward in training: DistributedDataParallel's buckets may leave before it on one
/// rank and after it on another, where a parameter is unused. Declare it in place of BatchNorm: a C++ module's forward
/// calls its own members, so that nobody can convert them from outside.
class SyncBatchNormImpl : public torch::nn::Cloneable<SyncBatchNormImpl> {
 public:
  /// @throws Error  if an option makes no sense
  explicit SyncBatchNormImpl(SyncBatchNormOptions options);
  void reset() override;
  /// @throws Error  if the input has another number of channels, or all ranks together have one value per channel
  at::Tensor forward(const at::Tensor& input);

  SyncBatchNormOptions options;
  at::Tensor weight, bias;                                    ///< [channels]; undefined without `affine`
  at::Tensor running_mean, running_var, num_batches_tracked;  ///< undefined without `track_running_stats`

 private:
  std::shared_ptr<Communicator> group() const;
  Communicator& own_group(const std::shared_ptr<Communicator>& ranks);
  /// What a batch counts for in the running averages.
  double batch_share() const;
  void track(const at::Tensor& mean, const at::Tensor& variance, double count);

  std::weak_ptr<Communicator> ranks_;  // of the last forward in training
  std::shared_ptr<Communicator> own_group_;
};
TORCH_MODULE(SyncBatchNorm);

/// While it lives, what SyncBatchNorm normalises in this thread counts for nothing, in forward and in the backward of
/// that forward: a rank without samples gives some input to keep step with the others, and what it holds is left out of
/// the statistics and of all gradients.
class SyncBatchNormWithoutSamples {
 public:
  SyncBatchNormWithoutSamples();
  ~SyncBatchNormWithoutSamples();
  SyncBatchNormWithoutSamples(const SyncBatchNormWithoutSamples&) = delete;
  SyncBatchNormWithoutSamples& operator=(const SyncBatchNormWithoutSamples&) = delete;
};

}  // namespace lockstep
