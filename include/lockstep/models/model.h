#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/tensor/batch.h"
#include "lockstep/tensor/loss_sum.h"

namespace lockstep {

/// What a synthetic batch looks like.
struct RandomBatchOptions {
  std::int64_t size = 1;             ///< samples
  std::int64_t sequence_length = 0;  ///< tokens of each text; 0: the model's default; models without text ignore it
  std::uint64_t seed = 0;            ///< the same seed gives the same batch
  bool mixed_lengths = false;        ///< texts of 1 to sequence_length tokens, padded
};

/// `c10::optional<c10::Device>` or `std::optional<c10::Device>`, whichever this version of LibTorch uses.
template <typename Optional>
Optional optional_device_of(std::shared_ptr<torch::nn::Module> (torch::nn::Module::*)(const Optional&) const);
using OptionalDevice = decltype(optional_device_of(&torch::nn::Module::clone));

enum class InputKind { Features, Image, Text };

/// One tensor of a batch; -1 in `shape` stands for batch size or sequence length.
struct InputField {
  std::string name;
  at::ScalarType dtype;
  std::vector<std::int64_t> shape;
};

/// A network that declares its inputs and computes its own loss, so that one loop can train any model. The concrete
/// classes also have a typed `forward`, and are ordinary modules.
///
/// Not thread-safe, like any module during training. `clone` makes a model for another thread.
class Model : public torch::nn::Module {
 public:
  using torch::nn::Module::Module;

  virtual InputKind input_kind() const = 0;
  /// The tensors that `forward` and `loss` need, including "labels". Optional tensors are not listed.
  virtual std::vector<InputField> inputs() const = 0;
  /// @throws Error  if the size is not positive or the sequence is longer than the model's positions
  virtual Batch random_batch(const RandomBatchOptions& options) const = 0;

  /// The output for `batch`: class scores [size, classes], or token scores [size, length, vocabulary].
  /// Tensors of the batch that the model does not know are ignored.
  /// @throws Error  if a tensor is missing, or ids or shapes do not fit the model
  at::Tensor forward(const Batch& batch) { return forward_batch(batch); }
  /// The loss of `output`, which `forward` returned, against the labels in `batch`. May be called from any thread;
  /// keeps no state.
  /// @throws Error  if labels are missing or outside the head
  virtual LossSum loss(const at::Tensor& output, const Batch& batch) const = 0;
  /// The loss with smoothed labels: all classes share the part `factor` of each label evenly, as in Hugging Face's
  /// LabelSmoother. Default: cross entropy over the output's last dimension against "labels". Throws as `loss`.
  virtual LossSum smoothed_loss(const at::Tensor& output, const Batch& batch, double factor) const;
  /// Floating-point operations of forward and backward, as Hugging Face's Trainer counts them for `total_flos`: 6 times
  /// the tokens in "input_ids" times the numbers in parameters that are not embeddings. 0 if the batch has no tokens.
  double floating_point_ops(const Batch& batch) const;

  /// A model with this configuration and copies of all parameters and buffers, with training mode and requires_grad.
  /// Names that share one tensor here share one tensor in the copy.
  std::shared_ptr<torch::nn::Module> clone(const OptionalDevice& device = {}) const override;

 protected:
  /// The tensor `name` in `batch`. @throws Error  if the batch does not have it
  const at::Tensor& field(const Batch& batch, const std::string& name) const;

 private:
  void clone_(torch::nn::Module& other, const OptionalDevice& device) override;
  /// `forward` of a batch. It has a name of its own, because a typed `forward` in a derived class would hide it.
  virtual at::Tensor forward_batch(const Batch& batch) = 0;
  virtual std::shared_ptr<Model> make_alike() const = 0;
};

}  // namespace lockstep
