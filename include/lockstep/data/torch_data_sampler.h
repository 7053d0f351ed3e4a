#pragma once

#include <torch/data/samplers/base.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "lockstep/data/distributed_sampler.h"
#include "lockstep/data/sampler.h"

namespace lockstep {

/// Lets torch::data's loaders use a Sampler of Lockstep, such as one replica's share in PyTorch's order:
///
///     lockstep::TorchDataSampler sampler(*dataset.size());  // the default group's ranks share the dataset
///     auto loader = torch::data::make_data_loader(std::move(dataset), sampler, options);
///     for (int epoch = 0; epoch < epochs; ++epoch) {
///       sampler.set_epoch(epoch);
///       for (auto& batch : *loader) ...
///     }
///
/// A loader copies its sampler. Copies of this class refer to one sampler, so `set_epoch` reaches the loader, which it
/// does not with LibTorch's DistributedRandomSampler. An epoch's order is fixed when its loop begins; workers do not
/// affect it. Use one sampler per loader, on one thread at a time; the loader reads it in the loop's own thread.
class TorchDataSampler : public torch::data::samplers::Sampler<> {
  using Base = torch::data::samplers::Sampler<>;
  template <typename Argument>
  static Argument argument_of(void (Base::*)(Argument));

 public:
  /// c10::optional or std::optional, as LibTorch's version has it.
  using NewSize = decltype(argument_of(&Base::reset));
  using Request = decltype(std::declval<Base&>().next(1));

  /// A replica's share of `dataset_size` samples: DistributedSampler. @throws Error  as it does
  explicit TorchDataSampler(std::int64_t dataset_size, const DistributedSamplerOptions& share = {});
  /// Any Sampler of Lockstep, for example ExactDistributedSampler to evaluate. @throws Error  if it is null
  explicit TorchDataSampler(std::shared_ptr<lockstep::Sampler> sampler);

  /// Chooses the order of the next loop. Call it before each epoch with the same number on every rank.
  void set_epoch(std::int64_t epoch) { sampler().set_epoch(epoch); }
  std::int64_t epoch() const { return sampler().epoch(); }
  /// Samples per epoch on this rank.
  std::int64_t size() const { return sampler().size(); }
  lockstep::Sampler& sampler() const { return *shared_->sampler; }

  /// The state from which to resume after a loop has taken `samples` samples of this epoch on this rank. Count the
  /// samples in the loop: a loader with workers has requested more than it has handed out. @throws Error  if an epoch
  /// has fewer samples
  SamplerState state_after(std::int64_t samples) const;
  /// The next loop continues from `state`. A `set_epoch` with the loaded epoch keeps the position.
  /// @throws Error  as Sampler::load_state
  void load_state(const SamplerState& state) { sampler().load_state(state); }

  // Called by the loader.
  /// @throws Error  if `new_size` differs from the size of the dataset
  void reset(NewSize new_size = {}) override;
  Request next(std::size_t batch_size) override;
  /// The position after what the loader has requested; for a loader without workers, that is what it has handed out.
  void save(torch::serialize::OutputArchive& archive) const override;
  /// @throws Error  as load_state, or if the archive holds something else
  void load(torch::serialize::InputArchive& archive) override;

 private:
  struct Shared {
    std::shared_ptr<lockstep::Sampler> sampler;
    SamplerState at;         // of the current loop; set_epoch meanwhile concerns the next one
    bool has_begun = false;  // false: `at` is not valid
  };
  std::shared_ptr<Shared> shared_;
};

}  // namespace lockstep
