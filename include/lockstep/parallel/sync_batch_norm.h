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
  std::optional<double> momentum = 0.1;  ///< absent: the averages are over all batches so far
  bool affine = true;
  bool track_running_stats = true;
  std::shared_ptr<Communicator>
      process_group;  ///< whose batches count together; default: the group of init_process_group, if any
};

/// Batch normalisation over the batches of all ranks together, as one process would normalise the whole batch. It is
/// for batches so small that their own mean and variance are rough. Input [n, channels] or [n, channels, ...]; the
/// ranks' batches may differ in size and may be empty. Parameters and buffers have BatchNorm's names, so that each can
/// load the other's state. In evaluation, without a group, and with one rank, it works as BatchNorm does.
///
/// Collective in training: forward gathers 2 channels + 1 numbers, backward sums 2 channels, in the order in which the
/// model computes. Every rank runs the same layers. These messages have a group of their own, made in the first forward
/// in training, because DistributedDataParallel's buckets may leave earlier on one rank than on another if a parameter
/// is unused. Declare this class in place of BatchNorm: a C++ module's forward calls its own members, so they cannot be
/// converted from outside.
class SyncBatchNormImpl : public torch::nn::Cloneable<SyncBatchNormImpl> {
 public:
  /// @throws Error  if an option is invalid
  explicit SyncBatchNormImpl(SyncBatchNormOptions options);
  void reset() override;
  /// @throws Error  if the input has another number of channels, or if all ranks together have only one value per
  /// channel
  at::Tensor forward(const at::Tensor& input);

  SyncBatchNormOptions options;
  at::Tensor weight, bias;                                    ///< [channels]; undefined without `affine`
  at::Tensor running_mean, running_var, num_batches_tracked;  ///< undefined without `track_running_stats`

 private:
  std::shared_ptr<Communicator> group() const;
  Communicator& own_group(const std::shared_ptr<Communicator>& ranks);
  /// The weight of one batch in the running averages.
  double batch_share() const;
  void track(const at::Tensor& mean, const at::Tensor& variance, double count);

  std::weak_ptr<Communicator> ranks_;  // of the last forward in training
  std::shared_ptr<Communicator> own_group_;
};
TORCH_MODULE(SyncBatchNorm);

/// While it lives, SyncBatchNorm ignores its inputs in this thread, in forward and in that forward's backward. A rank
/// without samples passes some input to keep step with the others; the input is left out of the statistics and of all
/// gradients.
class SyncBatchNormWithoutSamples {
 public:
  SyncBatchNormWithoutSamples();
  ~SyncBatchNormWithoutSamples();
  SyncBatchNormWithoutSamples(const SyncBatchNormWithoutSamples&) = delete;
  SyncBatchNormWithoutSamples& operator=(const SyncBatchNormWithoutSamples&) = delete;
};

}  // namespace lockstep
