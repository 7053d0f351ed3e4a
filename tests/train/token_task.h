// A small task whose loss counts tokens: texts of different lengths, some of whose tokens have no label.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/train/trainable_model.h"

namespace lockstep {

/// `size` samples: "input_ids" [1..7 tokens] and "labels" of equal length, about a third of them -100.
class TokenTaskDataset : public Dataset {
 public:
  explicit TokenTaskDataset(std::int64_t size, std::uint64_t seed = 3) {
    auto generator = at::detail::createCPUGenerator(seed);
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t length = 1 + i * 5 % 7;
      const at::Tensor ids = torch::randint(0, kTokens, {length}, generator, torch::kLong);
      at::Tensor labels = (ids * 3 + 1).remainder(kTokens);
      labels = labels.masked_fill(torch::rand({length}, generator).lt(0.35), -100);
      samples_.push_back({{"input_ids", ids}, {"labels", labels}});
    }
  }
  static constexpr std::int64_t kTokens = 11;
  std::int64_t size() const override { return static_cast<std::int64_t>(samples_.size()); }
  std::vector<std::int64_t> lengths() const {
    std::vector<std::int64_t> lengths;
    for (const Example& sample : samples_) lengths.push_back(sample.at("input_ids").size(0));
    return lengths;
  }

 private:
  Example do_get(std::int64_t index) const override { return samples_[static_cast<std::size_t>(index)]; }
  std::vector<Example> samples_;
};

/// Pads ids with 0 and labels with -100, to the longest of the batch.
inline Batch pad_tokens(std::vector<Example> examples) {
  std::int64_t length = 0;
  for (const Example& example : examples) length = std::max(length, example.at("input_ids").size(0));
  const auto rows = static_cast<std::int64_t>(examples.size());
  Batch batch{{"input_ids", torch::zeros({rows, length}, torch::kLong)},
              {"labels", torch::full({rows, length}, -100, torch::kLong)}};
  for (std::int64_t i = 0; i < rows; ++i) {
    for (auto& [name, tensor] : batch) {
      const at::Tensor& own = examples[static_cast<std::size_t>(i)].at(name);
      tensor[i].slice(0, 0, own.size(0)).copy_(own);
    }
  }
  return batch;
}

struct TokenNetImpl : torch::nn::Cloneable<TokenNetImpl> {
  explicit TokenNetImpl(double dropout_rate = 0) : rate(dropout_rate) { TokenNetImpl::reset(); }
  void reset() override {
    embedding = register_module("embedding", torch::nn::Embedding(TokenTaskDataset::kTokens, 6));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({6})));
    dropout = register_module("dropout", torch::nn::Dropout(rate));
    head = register_module("head", torch::nn::Linear(6, TokenTaskDataset::kTokens));
  }
  at::Tensor forward(const at::Tensor& ids) { return head(dropout(torch::tanh(norm(embedding(ids))))); }

  double rate;
  torch::nn::Embedding embedding{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
  torch::nn::Linear head{nullptr};
};

/// Each call returns the same initial weights.
inline std::shared_ptr<TokenNetImpl> make_token_net(double dropout_rate = 0) {
  auto net = std::make_shared<TokenNetImpl>(dropout_rate);
  auto generator = at::detail::createCPUGenerator(17);
  const torch::NoGradGuard no_grad;
  for (at::Tensor& parameter : net->parameters()) {
    parameter.copy_(torch::randn(parameter.sizes(), generator, parameter.options()) * 0.3);
  }
  return net;
}

inline LossSum token_loss(const at::Tensor& output, const Batch& batch) {
  return smoothed_cross_entropy(output, batch.at("labels"), 0);
}

inline std::shared_ptr<TrainableModel> adapt_token_net(const std::shared_ptr<TokenNetImpl>& net) {
  return adapt(
      net, [](TokenNetImpl& module, const Batch& batch) { return module.forward(batch.at("input_ids")); }, token_loss);
}

/// All parameters in one vector, copied.
inline at::Tensor flat_weights(torch::nn::Module& module) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& parameter : module.parameters()) parts.push_back(parameter.detach().flatten().clone());
  return torch::cat(parts);
}

}  // namespace lockstep
