#include "lockstep/models/convnet.h"

#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>

#include "lockstep/base/error.h"
#include "lockstep/models/loss.h"
#include "lockstep/models/random_tensors.h"

namespace lockstep {
namespace {

constexpr std::int64_t kFirstChannels = 16;
constexpr std::int64_t kSecondChannels = 32;

const ConvNetOptions& checked(const ConvNetOptions& options) {
  if (options.channels > 0 && options.classes > 0 && options.side > 0 && options.side % 4 == 0) return options;
  throw Error(fmt::format("there is no network for {} channels, side {}, {} classes", options.channels, options.side,
                          options.classes),
              "ConvNet", "give positive numbers and a side that is a multiple of 4");
}

}  // namespace

// Its children are "0" and "1", as in a Sequential whose other members have no parameters.
class ConvNetImpl::Block : public torch::nn::Module {
 public:
  Block(std::int64_t in, std::int64_t out)
      : conv_(register_module("0", torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 5).padding(2)))),
        norm_(register_module("1", torch::nn::BatchNorm2d(out))) {}

  at::Tensor forward(const at::Tensor& x) {
    return at::max_pool2d(at::relu(norm_->forward(conv_->forward(x))), {2, 2}, {2, 2});
  }

 private:
  torch::nn::Conv2d conv_;
  torch::nn::BatchNorm2d norm_;
};

ConvNetImpl::ConvNetImpl(ConvNetOptions options)
    : Model("ConvNet"),
      options_(checked(options)),
      layer1_(register_module("layer1", std::make_shared<Block>(options.channels, kFirstChannels))),
      layer2_(register_module("layer2", std::make_shared<Block>(kFirstChannels, kSecondChannels))),
      fc_(register_module(
          "fc", torch::nn::Linear(options.side / 4 * (options.side / 4) * kSecondChannels, options.classes))) {}

at::Tensor ConvNetImpl::forward(const at::Tensor& images) {
  if (images.dim() != 4 || images.size(1) != options_.channels || images.size(2) != options_.side ||
      images.size(3) != options_.side) {
    throw Error(fmt::format("images have shape [{}], but the model takes [size, {}, {}, {}]",
                            fmt::join(images.sizes(), ", "), options_.channels, options_.side, options_.side),
                "ConvNet, field \"images\"", "build the model for the images' channels and side, or resize them");
  }
  return fc_->forward(layer2_->forward(layer1_->forward(images)).flatten(1));
}

std::vector<InputField> ConvNetImpl::inputs() const {
  return {{"images", at::kFloat, {-1, options_.channels, options_.side, options_.side}}, {"labels", at::kLong, {-1}}};
}

Batch ConvNetImpl::random_batch(const RandomBatchOptions& options) const {
  RandomTensors random(options, "ConvNet");
  return {{"images", random.uniform({options.size, options_.channels, options_.side, options_.side})},
          {"labels", random.integers({options.size}, options_.classes)}};
}

at::Tensor ConvNetImpl::forward_batch(const Batch& batch) { return forward(field(batch, "images")); }

LossSum ConvNetImpl::loss(const at::Tensor& output, const Batch& batch) const {
  return cross_entropy_sum(output, field(batch, "labels"), "ConvNet");
}

}  // namespace lockstep
