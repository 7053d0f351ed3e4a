#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>
#include <vector>

#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/map_tensors.h"
#include "lockstep/tensor/autocast.h"
#include "lockstep/train/mixed_precision.h"

namespace lockstep {

/// A module under DistributedDataParallel, with autocast around its forward where mixed precision asks for it; outputs
/// are fp32 then. Copies are the same model.
template <typename ModuleType>
class PreparedModel {
 public:
  /// @throws Error  as DistributedDataParallel, and if the module's device cannot compute in that precision
  PreparedModel(ModuleType module, DistributedDataParallelOptions options, MixedPrecision precision)
      : ddp_(std::make_shared<DistributedDataParallel<ModuleType>>(std::move(module), std::move(options))),
        precision_(precision) {
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
  ModuleTensors tensors() { return module_tensors(reach()); }
  void train(bool on = true) { reach().train(on); }
  void eval() { reach().eval(); }

 private:
  auto& reach() {
    if constexpr (std::is_base_of_v<torch::jit::Module, ModuleType>) {
      return ddp_->module();
    } else {
      return *ddp_->module();
    }
  }

  std::shared_ptr<DistributedDataParallel<ModuleType>> ddp_;
  MixedPrecision precision_;
  c10::DeviceType device_ = c10::DeviceType::CPU;
};

}  // namespace lockstep
