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
#include "lockstep/detail/tensor/module_tensors.h"
#include "lockstep/safetensors/safetensors.h"
#include "lockstep/tensor/loss_sum.h"

namespace lockstep {

/// Summed cross entropy of scores [.., classes] for labels [..] (int64; -100 is left out). All classes share the part
/// `factor` of each label evenly, as with PyTorch's `label_smoothing` and Hugging Face's LabelSmoother.
LossSum smoothed_cross_entropy(const at::Tensor& scores, const at::Tensor& labels, double factor);

/// The network of a Trainer: any module, also TorchScript, with functions that call it and compute its loss. `adapt`
/// makes one from a module and two functions.
///
/// Not thread-safe, except that `forward_on` and the losses run on several replicas at once.
class TrainableModel {
 public:
  virtual ~TrainableModel() = default;

  virtual ModuleTensors tensors() = 0;
  virtual void set_training(bool on) = 0;
  virtual at::Tensor forward(const Batch& batch) = 0;
  /// The nn::Module that DataParallel replicates; null if the model is not one (TorchScript).
  virtual std::shared_ptr<torch::nn::Module> module() { return nullptr; }
  /// Runs `forward` on a copy of `module()`.
  virtual at::Tensor forward_on(torch::nn::Module& replica, const Batch& batch);
  /// Computes the loss of `output` against batch["labels"]. May be called from any thread.
  virtual LossSum loss(const at::Tensor& output, const Batch& batch) const = 0;
  /// The loss with label smoothing. Default: smoothed_cross_entropy of `output` and batch["labels"].
  virtual LossSum smoothed_loss(const at::Tensor& output, const Batch& batch, double factor) const;
  /// The part of an output that metrics need. Undefined: nothing, so that outputs are not kept. Default: everything.
  virtual at::Tensor predictions(const at::Tensor& output) const { return output; }
  /// Whether weight decay applies to this parameter. Default: as is_decayed_name.
  virtual bool is_decayed(const std::string& name) const;
  /// Floating-point operations of forward and backward of a batch, which `total_flos` adds up. Default: 0, as in
  /// Hugging Face's Trainer for a foreign model.
  virtual double floating_point_ops(const Batch&) const { return 0; }
  /// Whether the module recomputes activations in backward. It must if gradient_checkpointing is set.
  virtual bool recomputes_activations() const { return false; }
  /// Whether ranks communicate in `loss` while gradients are computed, as a loss over the samples of all ranks does.
  /// A rank whose samples are used up then computes the loss of none: every tensor of the batch has no rows. Such a
  /// model takes no replicas in one process, each of which would see a part of the batch.
  virtual bool meets_ranks_in_loss() const { return false; }
  /// Further files in a saved folder, by name, as bytes: config.json, the tokenizer's files.
  virtual std::map<std::string, std::string> files() const { return {}; }
};

/// Whether weight decay applies to a parameter, by Hugging Face's rule: to all except biases and normalisation layers.
/// Excluded are names that, in small letters, contain "bias", "layernorm" or "rmsnorm", or have a part that is "norm"
/// or ends in "_norm"; and GPT-2's "ln_1", "ln_2", "ln_f".
bool is_decayed_name(const std::string& name);
/// Applies that rule to a parameter of `module`, and excludes the parameters of LibTorch's LayerNorm, whatever their
/// names.
bool is_decayed_parameter(const torch::nn::Module& module, const std::string& name);

/// Parameters and buffers of a model, by name: what `model.safetensors` holds.
NamedTensors weights_of(TrainableModel& model);

// Whether a class has these functions, as Lockstep's models do.
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
///         net, [](Net& module, const Batch& batch) { return module.forward(batch_field(batch, "features")); },
///         [](const at::Tensor& output, const Batch& batch) {
///           return smoothed_cross_entropy(output, batch_field(batch, "labels"), 0);
///         });
template <typename ModuleType>
class AdaptedModule : public TrainableModel {
 public:
  using Forward = std::function<at::Tensor(ModuleType&, const Batch&)>;
  using Loss = std::function<LossSum(const at::Tensor&, const Batch&)>;
  using Predictions = std::function<at::Tensor(const at::Tensor& output)>;

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
  at::Tensor predictions(const at::Tensor& output) const override {
    return predictions_ ? predictions_(output) : TrainableModel::predictions(output);
  }
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
  /// Declares that the module was built to recompute activations, so that gradient_checkpointing may be set.
  void set_recomputes_activations(bool recomputes) { recomputes_activations_ = recomputes; }
  /// Sets the files that a saved folder holds besides the weights.
  void set_files(std::map<std::string, std::string> files) { files_ = std::move(files); }
  bool meets_ranks_in_loss() const override { return meets_ranks_in_loss_; }
  /// Declares that ranks communicate in the loss: see TrainableModel.
  void set_meets_ranks_in_loss(bool meets) { meets_ranks_in_loss_ = meets; }
  /// Sets the part of an output that metrics need. If it returns an undefined tensor, outputs are not kept.
  void set_predictions(Predictions predictions) { predictions_ = std::move(predictions); }
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
  Predictions predictions_;
  bool recomputes_activations_ = false;
  bool meets_ranks_in_loss_ = false;
};

template <typename ModuleType, typename Forward, typename Loss>
std::shared_ptr<AdaptedModule<ModuleType>> adapt(std::shared_ptr<ModuleType> module, Forward forward, Loss loss) {
  return std::make_shared<AdaptedModule<ModuleType>>(std::move(module), std::move(forward), std::move(loss));
}

/// Adapts a model that reads batches and computes its own loss, as Lockstep's models do: `forward(batch)` and
/// `loss(output, batch)`. `ModelType` may be a base class, such as Model.
template <typename ModelType>
std::shared_ptr<AdaptedModule<ModelType>> adapt(std::shared_ptr<ModelType> model) {
  const ModelType* const of_loss = model.get();  // the adapter holds it
  return adapt(
      std::move(model), [](ModelType& each, const Batch& batch) { return each.forward(batch); },
      [of_loss](const at::Tensor& output, const Batch& batch) { return of_loss->loss(output, batch); });
}

}  // namespace lockstep
