#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>
#include <vector>

#include "lockstep/detail/tensor/autocast.h"
#include "lockstep/detail/tensor/map_tensors.h"
#include "lockstep/detail/tensor/wrapped_module.h"
#include "lockstep/detail/train/mixed_precision.h"
#include "lockstep/parallel/distributed_data_parallel.h"

namespace lockstep {
namespace detail {

template <typename Type>
constexpr bool require_preparable() {
  static_assert(std::is_base_of_v<torch::nn::Module, Type> || kIsScriptModule<Type> || PointsToModule<Type>::value,
                "Accelerator::prepare takes modules (a holder, a shared_ptr or a torch::jit::Module), optimizers, "
                "schedulers, lockstep::DataLoader and loaders of torch::data; this argument is none of them. Pass "
                "`*optimizer` where a pointer holds it");
  return require_wrappable<Type>();
}

}  // namespace detail

/// A module under DistributedDataParallel. In mixed precision its forward runs under autocast and returns fp32. Copies
/// refer to one model.
template <typename ModuleType>
class PreparedModel : public ModuleMembers<PreparedModel<ModuleType>, ModuleType> {
 public:
  /// @throws Error  as DistributedDataParallel, and if the module's device does not support the precision
  PreparedModel(ModuleType module, DistributedDataParallelOptions options, MixedPrecision precision)
      : precision_(precision) {
    if (precision_.autocast) options.compute_dtype = precision_.scales_loss() ? at::kFloat : precision_.dtype;
    ddp_ = std::make_shared<DistributedDataParallel<ModuleType>>(std::move(module), std::move(options));
    const auto& parameters = ddp_->named_parameters();
    if (!parameters.empty()) device_ = parameters.front().second.device().type();
    check_mixed_precision(precision_, device_, "Accelerator::prepare");
  }

  template <typename... Args>
  auto forward(Args&&... args) {
    const Autocast autocast(device_, precision_.dtype, precision_.autocast);
    auto output = ddp_->forward(std::forward<Args>(args)...);
    if (!precision_.autocast) return output;
    std::vector<at::Tensor> tensors = tensors_of(output);
    for (at::Tensor& tensor : tensors) {
      if (tensor.scalar_type() == precision_.dtype) tensor = tensor.to(at::kFloat);
    }
    return with_tensors(std::move(output), tensors);
  }
  template <typename... Args>
  auto operator()(Args&&... args) {
    return forward(std::forward<Args>(args)...);
  }

  ModuleType& module() { return ddp_->module(); }
  const ModuleType& module() const { return ddp_->module(); }
  DistributedDataParallel<ModuleType>& ddp() { return *ddp_; }
  ModuleTensors tensors() { return module_tensors(detail::plain_module(ddp_->module())); }

 private:
  std::shared_ptr<DistributedDataParallel<ModuleType>> ddp_;
  MixedPrecision precision_;
  c10::DeviceType device_ = c10::DeviceType::CPU;
};

}  // namespace lockstep
