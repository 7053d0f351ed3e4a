#pragma once

#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <memory>

#include "lockstep/models/model.h"

namespace lockstep {

struct ConvNetOptions {
  std::int64_t channels = 1;  ///< channels of the input image
  std::int64_t side = 28;     ///< height and width of the input, a multiple of 4
  std::int64_t classes = 10;
};

/// The small network of PyTorch's MNIST tutorials: two blocks of convolution 5x5 (16, then 32 channels), batch norm,
/// ReLU and 2x2 max pooling, then one linear layer. Its parameters have the names and initial values of
/// `layer1 = Sequential(Conv2d, BatchNorm2d, ReLU, MaxPool2d)`, `layer2` alike, and `fc = Linear`.
/// Batch: "images" [size, channels, side, side], "labels" [size] int64.
class ConvNetImpl : public Model {
 public:
  /// @throws Error  if a size is not positive or the side is not a multiple of 4
  explicit ConvNetImpl(ConvNetOptions options = {});

  /// @param images  [size, channels, side, side]
  /// @return  class scores [size, classes]
  /// @throws Error  if the images have another shape
  at::Tensor forward(const at::Tensor& images);

  const ConvNetOptions& options() const { return options_; }
  InputKind input_kind() const override { return InputKind::Image; }
  std::vector<InputField> inputs() const override;
  Batch random_batch(const RandomBatchOptions& options) const override;
  LossSum loss(const at::Tensor& output, const Batch& batch) const override;

 private:
  class Block;

  at::Tensor forward_batch(const Batch& batch) override;
  std::shared_ptr<Model> make_alike() const override { return std::make_shared<ConvNetImpl>(options_); }

  ConvNetOptions options_;
  std::shared_ptr<Block> layer1_;
  std::shared_ptr<Block> layer2_;
  torch::nn::Linear fc_{nullptr};
};
TORCH_MODULE(ConvNet);

}  // namespace lockstep
