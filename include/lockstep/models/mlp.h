#pragma once

#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <vector>

#include "lockstep/models/model.h"

namespace lockstep {

struct MlpOptions {
  std::int64_t features = 122;  ///< columns of the input: NSL-KDD, its three symbolic columns one-hot, has 122
  std::vector<std::int64_t> hidden = {128, 64, 32, 16};
  std::int64_t classes = 2;
};

/// Fully connected layers with ReLU between them: "fc1" to "fcN", initialised as PyTorch's `Linear`.
/// Batch: "features" [size, features] of the parameters' dtype, "labels" [size] int64.
class MlpImpl : public Model {
 public:
  /// @throws Error  if a width is not positive
  explicit MlpImpl(MlpOptions options = {});

  /// @param features  [size, features]
  /// @return  class scores [size, classes]
  /// @throws Error  if the number of columns differs
  at::Tensor forward(const at::Tensor& features);

  const MlpOptions& options() const { return options_; }
  InputKind input_kind() const override { return InputKind::Features; }
  std::vector<InputField> inputs() const override;
  Batch random_batch(const RandomBatchOptions& options) const override;
  LossSum loss(const at::Tensor& output, const Batch& batch) const override;

 private:
  at::Tensor forward_batch(const Batch& batch) override;
  std::shared_ptr<Model> make_alike() const override { return std::make_shared<MlpImpl>(options_); }

  MlpOptions options_;
  std::vector<torch::nn::Linear> layers_;
};
TORCH_MODULE(Mlp);

}  // namespace lockstep
