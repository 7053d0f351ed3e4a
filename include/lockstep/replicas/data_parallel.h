#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/detail/replicas/loss_hint.h"
#include "lockstep/detail/tensor/call_forward.h"
#include "lockstep/detail/tensor/wrapped_module.h"
#include "lockstep/replicas/gather.h"
#include "lockstep/replicas/parallel_apply.h"
#include "lockstep/replicas/replicate.h"
#include "lockstep/replicas/scatter.h"

namespace lockstep {

/// Runs a module on all devices of this process at once: cuts the batch into chunks, computes each on a replica, and
/// puts the outputs together.
///
///     ConvNet model;                                         // any holder, shared_ptr to a Module, torch::jit::Module
///     lockstep::DataParallel dp(model, {"cpu:0", "cpu:1"});  // default: all devices
///     auto loss = criterion(dp(images), labels);
///     loss.backward();                                       // replicas' gradients add up in `model`
///
/// The arguments and their meaning are those of PyTorch's DataParallel, with these differences: CPU replicas count as
/// devices and share the weights; replicas are made once and kept; backward runs on all replicas at once. `forward`
/// returns what the module's forward returns (tensors, IValues, and optionals, pairs, tuples, ranges, maps and structs
/// of these, as in DistributedDataParallel::forward), gathered on `output_device`. Scalar outputs, such as losses,
/// become a vector with one element per replica. With one device it calls the module's own forward; without arguments
/// only the first replica runs.
///
/// The mean of these losses is the batch's loss only if the chunks are equal; if they are not, a warning says so once.
/// parallel_loss, or a `LossSum` among the outputs, is exact for any chunks. One thread at a time.
template <typename ModuleType>
class DataParallel : public ModuleMembers<DataParallel<ModuleType>, ModuleType> {
  static_assert(detail::require_wrappable<ModuleType>());

 public:
  /// @param device_ids     the replicas' devices; empty: all_replica_devices(). The module must be on the first device
  /// @param output_device  device of the gathered outputs; default: the first
  /// @param dim            dimension of the batch, in inputs and outputs
  /// @throws Error  as replicate
  explicit DataParallel(ModuleType module, std::vector<ReplicaDevice> device_ids = {},
                        std::optional<ReplicaDevice> output_device = {}, std::int64_t dim = 0,
                        ReplicaOptions options = {})
      : replicas_(std::move(module), device_ids.empty() ? all_replica_devices() : std::move(device_ids), options),
        output_device_(output_device ? *output_device : replicas_.devices().front()),
        dim_(dim) {
    output_device_.require_present("output_device");
  }
  /// Takes a vector of names, such as std::vector<std::string>, or of numbers.
  template <typename Name, std::enable_if_t<kNamesDevice<Name>, int> = 0>
  explicit DataParallel(ModuleType module, const std::vector<Name>& device_ids,
                        std::optional<ReplicaDevice> output_device = {}, std::int64_t dim = 0,
                        ReplicaOptions options = {})
      : DataParallel(std::move(module), replica_devices_named(device_ids), output_device, dim, options) {}

  /// Divides the tensors in `args` along `dim`, runs the module's forward on each replica, and gathers the outputs.
  /// @throws Error  if tensors of the arguments have different numbers of chunks, or the replicas' outputs do not fit
  /// together; the exception of a replica, with its number and device
  template <typename... Args>
  auto forward(const Args&... args) {
    return apply([](ModuleType& replica, auto&... each) { return call_forward(replica, each...); }, args...);
  }
  template <typename... Args>
  auto operator()(const Args&... args) {
    return forward(args...);
  }

  /// Calls `function(replica, chunk of each argument...)` in place of the module's forward. Throws as `forward`.
  template <typename Function, typename... Args>
  auto apply(Function&& function, const Args&... args) {
    StepTrace* const trace = replicas_.set().trace();
    if (replicas_.size() == 1) return call_module_there(function, args...);
    std::optional<std::vector<std::tuple<std::decay_t<Args>...>>> chunks;
    {
      TraceScope scope(trace, "scatter", replicas_.devices().front().name());
      if constexpr (sizeof...(Args) == 0) {
        chunks.emplace(1);  // nothing to divide
      } else {
        chunks.emplace(scatter(std::tuple<std::decay_t<Args>...>(args...), replicas_.devices(), dim_));
      }
      count_bytes(trace, scope, *chunks);
    }
    const auto outputs = parallel_apply(replicas_, *chunks, function);
    loss_hint_.look(*chunks, outputs, dim_);
    TraceScope scope(trace, "gather", output_device_.name());
    auto gathered = gather(outputs, output_device_, dim_);
    count_bytes(trace, scope, gathered);
    return gathered;
  }

  /// The wrapped module, which is replica 0.
  ModuleType& module() { return replicas_[0]; }
  const std::vector<ReplicaDevice>& device_ids() const { return replicas_.devices(); }
  const ReplicaDevice& output_device() const { return output_device_; }
  std::int64_t dim() const { return dim_; }
  Replicas<ModuleType>& replicas() { return replicas_; }
  /// Call it if weights were written through `data()` or by a kernel of your own between two forwards for inference:
  /// nothing else shows that replicas on other devices lack them. Not needed for training, nor on the CPU.
  void weights_changed() { replicas_.set().weights_changed(); }
  /// Records spans of each step in `trace` from now on, which must outlive its use; null ends the recording.
  void set_trace(StepTrace* trace) { replicas_.set().set_trace(trace); }
  /// Sets what warns of losses whose mean is not the batch's; default: each DataParallel has its own.
  void set_loss_hint(LossHint hint) { loss_hint_ = std::move(hint); }

 private:
  template <typename T>
  static void count_bytes(const StepTrace* trace, TraceScope& scope, const T& value) {
    if (trace == nullptr) return;
    visit_tensors(value, [&](const at::Tensor& tensor) {
      if (tensor.defined()) scope.add_bytes(static_cast<std::int64_t>(tensor.nbytes()));
    });
  }

  // The inputs go to its device, as with several devices.
  template <typename Function, typename... Args>
  auto call_module_there(Function&& function, const Args&... args) {
    if constexpr (sizeof...(Args) > 0) {
      if (!replicas_.devices().front().is_cpu()) {
        const auto there = scatter(std::tuple<std::decay_t<Args>...>(args...), replicas_.devices(), dim_);
        if (there.size() == 1) {
          return std::apply([&](const auto&... each) { return call_module(function, each...); }, there.front());
        }
      }
    }
    return call_module(function, args...);
  }

  template <typename Function, typename... Args>
  auto call_module(Function&& function, const Args&... args) {
    const TraceScope scope(replicas_.set().trace(), "forward", replicas_.devices().front().name());
    std::tuple<std::decay_t<Args>...> own(args...);
    return std::apply([&](auto&... each) { return function(replicas_[0], each...); }, own);
  }

  Replicas<ModuleType> replicas_;
  ReplicaDevice output_device_;
  std::int64_t dim_;
  LossHint loss_hint_;
};

/// One forward without an object to keep, as PyTorch's functional `data_parallel`. Makes new replicas in each call, so
/// a DataParallel is faster in a loop.
template <typename ModuleType, typename... Args>
auto data_parallel(ModuleType module, std::vector<ReplicaDevice> device_ids, const Args&... args) {
  static const auto was_hinted = std::make_shared<std::atomic<bool>>(false);
  DataParallel<ModuleType> dp(std::move(module), std::move(device_ids));
  dp.set_loss_hint(LossHint(was_hinted));
  return dp.forward(args...);
}

}  // namespace lockstep
