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
  std::int64_t sequence_length = 0;  ///< tokens of each text; 0 is the model's default; other inputs ignore it
  std::uint64_t seed = 0;            ///< the same seed gives the same batch
  bool mixed_lengths = false;        ///< texts of 1 to sequence_length tokens, padded
};

/// `c10::optional<c10::Device>` or `std::optional<c10::Device>`, as LibTorch's version has it.
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

/// A network that knows what it takes and what its loss is, so that one loop can train any of them. The concrete
/// classes have a typed `forward` of their own beside it, and are ordinary modules.
///
/// Not thread-safe, as any module that is being trained; `clone` gives another thread its own.
class Model : public torch::nn::Module {
 public:
  using torch::nn::Module::Module;

  virtual InputKind input_kind() const = 0;
  /// The tensors that `forward` and `loss` read, "labels" among them. Those that it can do without are not listed.
  virtual std::vector<InputField> inputs() const = 0;
  /// @throws Error  if the size is not positive or the sequence is longer than the model's positions
  virtual Batch random_batch(const RandomBatchOptions& options) const = 0;

  /// The output for `batch`: class scores [size, classes], or token scores [size, length, vocabulary].
  /// Tensors of the batch that the model does not know are ignored.
  /// @throws Error  if a tensor is missing, or ids or shapes do not fit the model
  at::Tensor forward(const Batch& batch) { return forward_batch(batch); }
  /// The loss of an output of `forward` for the labels in `batch`. Runs on any thread, keeps no state.
  /// @throws Error  if labels are missing or outside the head
  virtual LossSum loss(const at::Tensor& output, const Batch& batch) const = 0;
  /// The same where all classes share `factor` of each label evenly, as Hugging Face's LabelSmoother. Default: cross
  /// entropy of the output's last dimension and "labels". Throws as `loss`.
  virtual LossSum smoothed_loss(const at::Tensor& output, const Batch& batch, double factor) const;
  /// Floating-point operations of forward and backward, as Hugging Face's Trainer counts them for `total_flos`: 6 for
  /// each token of "input_ids" and each number in a parameter that is no embedding. 0 for what reads no tokens.
  double floating_point_ops(const Batch& batch) const;

  /// A model of the same configuration with copies of all parameters and buffers, training mode and requires_grad;
  /// parameters that are one tensor here are one tensor there.
  std::shared_ptr<torch::nn::Module> clone(const OptionalDevice& device = {}) const override;

 protected:
  /// The tensor `name` of `batch`. @throws Error  if it is not there
  const at::Tensor& field(const Batch& batch, const std::string& name) const;

 private:
  void clone_(torch::nn::Module& other, const OptionalDevice& device) override;
  virtual at::Tensor forward_batch(const Batch& batch) = 0;
  virtual std::shared_ptr<Model> make_alike() const = 0;
};

}  // namespace lockstep
