// A training on MNIST's images, the same but for how its ranks are kept together.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/data/idx.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "tests/support/slow_network_ways.h"

namespace lockstep {

struct DigitsData {
  at::Tensor train_images, train_labels, test_images, test_labels;  ///< [n, 784] fp32 in [0, 1], [n] int64
};

/// MNIST from `folder`: the first `train_count` images to learn from, and all test images. Nothing if the folder has
/// none.
inline std::optional<DigitsData> read_digits(const std::string& folder, std::int64_t train_count) {
  const auto file = [&](const char* name) { return folder + "/" + name + ".gz"; };
  if (!std::filesystem::exists(file("train-images-idx3-ubyte"))) return std::nullopt;
  const auto images = [&](const char* name) { return read_idx(file(name)).to(at::kFloat).div_(255).flatten(1); };
  const auto labels = [&](const char* name) { return read_idx(file(name)).to(at::kLong); };
  return DigitsData{images("train-images-idx3-ubyte").narrow(0, 0, train_count).contiguous(),
                    labels("train-labels-idx1-ubyte").narrow(0, 0, train_count).contiguous(),
                    images("t10k-images-idx3-ubyte"), labels("t10k-labels-idx1-ubyte")};
}

struct TrainingEnd {
  double loss = 0;      ///< on the test images
  double accuracy = 0;  ///< on them, in percent
};

/// 784-128-10 with ReLU, SGD with momentum, batches of 32 a rank. The same weights and batches whatever `way`.
inline TrainingEnd train_on_digits(const SlowNetworkWay& way, const std::shared_ptr<Communicator>& group,
                                   const DigitsData& data, int epochs) {
  torch::nn::Sequential net(torch::nn::Linear(784, 128), torch::nn::ReLU(), torch::nn::Linear(128, 10));
  auto generator = at::make_generator<at::CPUGeneratorImpl>(5);  // ranks may be threads, with LibTorch's in common
  {
    const torch::NoGradGuard no_grad;
    for (at::Tensor& parameter : net->parameters()) {
      const double bound = 1 / std::sqrt(static_cast<double>(parameter.dim() > 1 ? parameter.size(1) : 784));
      parameter.uniform_(-bound, bound, generator);
    }
  }
  DistributedDataParallelOptions options;
  options.process_group = group;
  DistributedDataParallel<torch::nn::Sequential> ddp(net, options);
  ddp.register_comm_hook(way.hook());
  const auto after_step = way.after_step(group, net->parameters());
  torch::optim::SGD optimizer(net->parameters(),
                              torch::optim::SGDOptions(0.05 * way.learning_rate_factor).momentum(0.9));
  const std::int64_t batch = 32, all = batch * group->world_size();
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const at::Tensor order = torch::randperm(data.train_labels.size(0), generator, torch::kLong);
    for (std::int64_t begin = 0; begin + all <= order.size(0); begin += all) {
      const at::Tensor mine = order.narrow(0, begin + group->rank() * batch, batch);
      optimizer.zero_grad();
      const at::Tensor scores = ddp(data.train_images.index_select(0, mine));
      torch::nn::functional::cross_entropy(scores, data.train_labels.index_select(0, mine)).backward();
      optimizer.step();
      after_step(net->parameters());
    }
  }
  const torch::NoGradGuard no_grad;
  const at::Tensor scores = net->forward(data.test_images);
  TrainingEnd end;
  end.loss = torch::nn::functional::cross_entropy(scores, data.test_labels).item<double>();
  end.accuracy = 100 * scores.argmax(1).eq(data.test_labels).to(at::kDouble).mean().item<double>();
  return end;
}

}  // namespace lockstep
