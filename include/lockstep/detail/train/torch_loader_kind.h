#pragma once

#include <memory>
#include <type_traits>

namespace torch {
namespace data {
template <typename Dataset, typename Batch, typename BatchRequest>
class DataLoaderBase;
template <typename Dataset, typename Sampler>
class StatelessDataLoader;
template <typename Dataset>
class StatefulDataLoader;
namespace samplers {
template <typename BatchRequest>
class DistributedSampler;
}
}  // namespace data
}  // namespace torch

namespace lockstep {

class TorchDataSampler;

namespace detail {

template <typename Dataset, typename Batch, typename BatchRequest>
std::true_type is_torch_loader(const torch::data::DataLoaderBase<Dataset, Batch, BatchRequest>*);
std::false_type is_torch_loader(const void*);

template <typename BatchRequest>
std::true_type is_distributed_sampler(const torch::data::samplers::DistributedSampler<BatchRequest>*);
std::true_type is_distributed_sampler(const TorchDataSampler*);
std::false_type is_distributed_sampler(const void*);

template <typename Loader>
struct TorchLoaderKind {
  static constexpr bool kIsStateful = false;
  static constexpr bool kIsShare = false;
};
template <typename Dataset, typename Sampler>
struct TorchLoaderKind<torch::data::StatelessDataLoader<Dataset, Sampler>> {
  static constexpr bool kIsStateful = false;
  static constexpr bool kIsShare = decltype(is_distributed_sampler(static_cast<const Sampler*>(nullptr)))::value;
};
template <typename Dataset>
struct TorchLoaderKind<torch::data::StatefulDataLoader<Dataset>> {
  static constexpr bool kIsStateful = true;
  static constexpr bool kIsShare = false;
};

template <typename T, typename = void>
struct IsTorchLoader : std::false_type {};
template <typename T>
struct IsTorchLoader<T, std::enable_if_t<std::is_class_v<T>>>
    : decltype(is_torch_loader(static_cast<const T*>(nullptr))) {};

// make_data_loader returns a unique_ptr.
template <typename T>
struct PointsToTorchLoader : std::false_type {};
template <typename Loader, typename Deleter>
struct PointsToTorchLoader<std::unique_ptr<Loader, Deleter>> : IsTorchLoader<Loader> {};
template <typename Loader>
struct PointsToTorchLoader<std::shared_ptr<Loader>> : IsTorchLoader<Loader> {};

}  // namespace detail

/// Whether `T` is a loader of torch::data, or a pointer that owns one.
template <typename T>
constexpr bool kIsTorchLoader = detail::IsTorchLoader<T>::value || detail::PointsToTorchLoader<T>::value;

/// The loader that `object` is or owns. A reference is not taken over and must outlive the result; an owner that is
/// moved here is taken over.
template <typename T>
auto torch_loader_of(T&& object) {
  using Type = std::decay_t<T>;
  if constexpr (detail::IsTorchLoader<Type>::value) {
    return std::shared_ptr<Type>(std::shared_ptr<Type>(), &object);
  } else {
    using Loader = typename Type::element_type;
    if constexpr (std::is_lvalue_reference_v<T>) {
      return std::shared_ptr<Loader>(std::shared_ptr<Loader>(), object.get());
    } else {
      return std::shared_ptr<Loader>(std::forward<T>(object));
    }
  }
}

}  // namespace lockstep
