#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "lockstep/data/batch.h"
#include "lockstep/safetensors/safetensors.h"
#include "lockstep/tensor/loss_sum.h"
#include "lockstep/tensor/module_tensors.h"

namespace lockstep {

/// Cross entropy of scores [.., classes] for labels [..] (int64, -100 counts for nothing), summed, where each class of
/// a label gets `factor` / classes of it: as PyTorch's `label_smoothing`, and Hugging Face's LabelSmoother.
LossSum smoothed_cross_entropy(const at::Tensor& scores, const at::Tensor& labels, double factor);

/// What a Trainer needs of a network: any module, TorchScript too, with a way to call it and a loss. `adapt` makes one
/// of a module and two functions.
///
/// Not thread-safe, but that `forward_on` and losses run on several replicas at once.
class TrainableModel {
 public:
  virtual ~TrainableModel() = default;

  virtual ModuleTensors tensors() = 0;
  virtual void set_training(bool on) = 0;
  virtual at::Tensor forward(const Batch& batch) = 0;
  /// The module, for DataParallel to copy; null where it is none, as in TorchScript.
  virtual std::shared_ptr<torch::nn::Module> module() { return nullptr; }
  /// `forward` of a copy of `module()`.
  virtual at::Tensor forward_on(torch::nn::Module& replica, const Batch& batch);
  /// Of an output of `forward`, for "labels" of the batch. Runs on any thread.
  virtual LossSum loss(const at::Tensor& output, const Batch& batch) const = 0;
  /// The same with label smoothing. Default: smoothed_cross_entropy of output and "labels".
  virtual LossSum smoothed_loss(const at::Tensor& output, const Batch& batch, double factor) const;
  /// What metrics get to see of an output; undefined: nothing, so that outputs need not be kept. Default: all of it.
  virtual at::Tensor predictions(const at::Tensor& output) const { return output; }
  /// Whether weight decay is for this parameter. Default: as is_decayed_name.
  virtual bool is_decayed(const std::string& name) const;
  /// Floating-point operations of forward and backward of a batch, which `total_flos` adds up. Default: 0, as in
  /// Hugging Face's Trainer for a model that is none of theirs.
  virtual double floating_point_ops(const Batch&) const { return 0; }
  /// Whether the module recomputes activations in backward: it must, where gradient_checkpointing asks for it.
  virtual bool recomputes_activations() const { return false; }
  /// Files beside the weights in a saved folder, by name, as bytes: config.json, those of the tokenizer.
  virtual std::map<std::string, std::string> files() const { return {}; }
};

/// Weight decay is for all but biases and normalisation layers, by Hugging Face's rule: not where a name, in small
/// letters, holds "bias", "layernorm" or "rmsnorm", or a part of it is "norm" or ends in "_norm"; nor for GPT-2's
/// "ln_1", "ln_2", "ln_f".
bool is_decayed_name(const std::string& name);
/// The same for a parameter of `module`, and not for those of LibTorch's LayerNorm, whatever its name.
bool is_decayed_parameter(const torch::nn::Module& module, const std::string& name);

/// Parameters and buffers of a model, by name: what `model.safetensors` holds.
NamedTensors weights_of(TrainableModel& model);

// Whether a class has them; those of Lockstep's models do.
template <typename Type, typename = void>
inline constexpr bool kHasSmoothedLoss = false;
template <typename Type>
inline constexpr bool kHasSmoothedLoss<Type, std::void_t<decltype(&Type::smoothed_loss)>> = true;
template <typename Type, typename = void>
inline constexpr bool kHasFloatingPointOps = false;
template <typename Type>
inline constexpr bool kHasFloatingPointOps<Type, std::void_t<decltype(&Type::floating_point_ops)>> = true;

/// Any module whose pointer can be copied, with its forward and its loss:
///
///     auto model = adapt(
///         net, [](Net& module, const Batch& batch) { return module.forward(batch.at("features")); },
///         [](const at::Tensor& output, const Batch& batch) { return smoothed_cross_entropy(output, batch.at("labels"),
///         0); });
template <typename ModuleType>
class AdaptedModule : public TrainableModel {
 public:
  using Forward = std::function<at::Tensor(ModuleType&, const Batch&)>;
  using Loss = std::function<LossSum(const at::Tensor&, const Batch&)>;

  AdaptedModule(std::shared_ptr<ModuleType> module, Forward forward, Loss loss)
      : module_(std::move(module)), forward_(std::move(forward)), loss_(std::move(loss)) {}

  ModuleTensors tensors() override { return module_tensors(*module_); }
  void set_training(bool on) override { module_->train(on); }
  at::Tensor forward(const Batch& batch) override { return forward_(*module_, batch); }
  LossSum loss(const at::Tensor& output, const Batch& batch) const override { return loss_(output, batch); }
  std::shared_ptr<torch::nn::Module> module() override {
    if constexpr (kIsModule) return module_;
    return nullptr;
  }
  std::map<std::string, std::string> files() const override { return files_; }
  LossSum smoothed_loss(const at::Tensor& output, const Batch& batch, double factor) const override {
    if constexpr (kHasSmoothedLoss<ModuleType>) return module_->smoothed_loss(output, batch, factor);
    return TrainableModel::smoothed_loss(output, batch, factor);
  }
  bool is_decayed(const std::string& name) const override {
    if constexpr (kIsModule) return is_decayed_parameter(*module_, name);
    return TrainableModel::is_decayed(name);
  }
  double floating_point_ops(const Batch& batch) const override {
    if constexpr (kHasFloatingPointOps<ModuleType>) return module_->floating_point_ops(batch);
    return 0;
  }
  bool recomputes_activations() const override { return recomputes_activations_; }
  /// The module was built so that it recomputes them: gradient_checkpointing may be asked for.
  void set_recomputes_activations(bool recomputes) { recomputes_activations_ = recomputes; }
  /// What stands in a saved folder beside the weights.
  void set_files(std::map<std::string, std::string> files) { files_ = std::move(files); }
  at::Tensor forward_on(torch::nn::Module& replica, const Batch& batch) override {
    if constexpr (kIsModule) return forward_(dynamic_cast<ModuleType&>(replica), batch);
    return TrainableModel::forward_on(replica, batch);
  }

 private:
  static constexpr bool kIsModule = std::is_base_of_v<torch::nn::Module, ModuleType>;

  std::shared_ptr<ModuleType> module_;
  Forward forward_;
  Loss loss_;
  std::map<std::string, std::string> files_;
  bool recomputes_activations_ = false;
};

template <typename ModuleType, typename Forward, typename Loss>
std::shared_ptr<AdaptedModule<ModuleType>> adapt(std::shared_ptr<ModuleType> module, Forward forward, Loss loss) {
  return std::make_shared<AdaptedModule<ModuleType>>(std::move(module), std::move(forward), std::move(loss));
}

/// A model that knows its batches and its loss, as those of Lockstep do: `forward(batch)`, and `loss(output, batch)`.
template <typename ModelType>
std::shared_ptr<AdaptedModule<ModelType>> adapt(std::shared_ptr<ModelType> model) {
  const ModelType* const of_loss = model.get();  // the adapter holds it
  return adapt(
      std::move(model), [](ModelType& each, const Batch& batch) { return each.forward(batch); },
      [of_loss](const at::Tensor& output, const Batch& batch) { return of_loss->loss(output, batch); });
}

}  // namespace lockstep
