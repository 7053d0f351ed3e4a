#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/data/dataset.h"
#include "lockstep/detail/tensor/map_tensors.h"
#include "lockstep/detail/train/loader_share.h"

namespace lockstep {
namespace detail {

// Reads the samples of a dataset of torch::data one by one.
template <typename Samples>
class TorchSamples : public Dataset {
 public:
  TorchSamples(Samples& samples, std::int64_t size) : samples_(&samples), size_(size) {}
  std::int64_t size() const override { return size_; }

 private:
  Example do_get(std::int64_t index) const override {
    const std::vector<std::size_t> indices{static_cast<std::size_t>(index)};
    const auto batch = samples_->get_batch(indices);
    Example example;
    for (const at::Tensor& tensor : tensors_of(batch)) example[std::to_string(example.size())] = tensor;
    return example;
  }

  Samples* samples_;
  std::int64_t size_;
};

// What a loader without workers has. Only derived classes can access it.
template <typename Loader>
struct MainThreadDatasetOf : Loader {
  static auto& of(Loader& loader) { return loader.*(&MainThreadDatasetOf::main_thread_dataset_); }
};

/// The samples of a loader of torch::data, while it lives; null if it does not have them, because each worker has a
/// copy of its own, or because their number is unknown.
template <typename Loader>
std::shared_ptr<const Dataset> torch_loader_data(Loader& loader) {
  auto& samples = MainThreadDatasetOf<Loader>::of(loader);
  using Samples = typename std::decay_t<decltype(samples)>::element_type;
  if (!samples) return nullptr;
  if constexpr (std::is_constructible_v<typename Samples::BatchRequestType, std::vector<std::size_t>&>) {
    const auto size = samples->size();
    if (size.has_value()) return std::make_shared<TorchSamples<Samples>>(*samples, static_cast<std::int64_t>(*size));
  }
  return nullptr;
}

/// Into which batches a loader deals its samples.
struct LoaderBatches {
  std::int64_t size = 0;
  bool drops_last = false;
};

/// Compares the ranks' loaders. Collective. @param data  as torch_loader_data returns it
/// @throws UsageError  on every rank, with the ranks and the first difference
void compare_torch_loader(Communicator& group, const std::shared_ptr<const Dataset>& data, const LoaderShare& share,
                          const LoaderBatches& batches);

}  // namespace detail
}  // namespace lockstep
