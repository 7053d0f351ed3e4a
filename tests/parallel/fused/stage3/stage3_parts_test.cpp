// Tests what a rank keeps of weights in shards, as it is saved and loaded without gathering.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/detail/tensor/autocast.h"
#include "lockstep/optim/adam.h"
#include "tests/parallel/fused/fuse_ranks.h"
#include "tests/parallel/fused/stage3/stage3.h"

namespace lockstep {
namespace {

constexpr int kPartsWidth = 24;

struct PartsNetImpl : torch::nn::Module {
  PartsNetImpl() {
    layers = register_module("layers", torch::nn::ModuleList());
    for (int i = 0; i < 3; ++i) layers->push_back(make_linear(kPartsWidth, kPartsWidth));
    frozen = register_parameter("frozen", torch::full({kPartsWidth}, 0.5), /*requires_grad=*/false);
  }
  torch::Tensor forward(torch::Tensor x) {
    for (const auto& layer : *layers) x = torch::tanh(layer->as<torch::nn::Linear>()->forward(x)) + frozen;
    return x;
  }
  torch::nn::ModuleList layers{nullptr};
  torch::Tensor frozen;
};
TORCH_MODULE(PartsNet);

struct PartsSubject {
  explicit PartsSubject(const Group& group, c10::ScalarType compute = at::kFloat)
      : ddp(model, buckets_of_a_parameter(group)) {
    FuseOptions how;
    how.stage = 3;
    how.compute_dtype = compute;
    EXPECT_EQ(ddp.fuse(optimizer, how).mode(), FuseMode::ShardedState) << ddp.fused_step().reason();
  }
  void step(int rank, int number) {
    ddp(fuse_batch(rank, number, kPartsWidth)).pow(2).mean().backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  PartsNet model;
  DistributedDataParallel<PartsNet> ddp;
  AdamW optimizer{model->parameters(), torch::optim::AdamWOptions(1e-2)};
};

std::map<std::string, torch::Tensor> whole_weights(PartsSubject& subject) {
  std::map<std::string, torch::Tensor> whole;
  subject.ddp.fused_step().unshard();
  for (const auto& item : subject.model->named_parameters()) whole[item.key()] = item.value().detach().clone();
  subject.ddp.fused_step().reshard();
  return whole;
}

TEST(Stage3Parts, HaveEachElementOnce) {
  for (const int ranks : {2, 3}) {
    std::map<std::string, torch::Tensor> seen;
    std::mutex mutex;
    fuse_ranks("tcp", ranks, [&](const Group& group) {
      PartsSubject subject(group);
      for (int number = 0; number < 2; ++number) subject.step(group->rank(), number);
      const auto whole = whole_weights(subject);
      const std::lock_guard<std::mutex> lock(mutex);
      for (const TensorPart& part : subject.ddp.fused_step().weight_parts()) {
        ASSERT_EQ(part.tensor.numel(), part.end - part.begin) << part.name;
        EXPECT_EQ(part.sizes, whole.at(part.name).sizes().vec());
        EXPECT_TRUE(torch::equal(part.tensor, whole.at(part.name).view({-1}).slice(0, part.begin, part.end)));
        auto& times = seen.try_emplace(part.name, torch::zeros({whole.at(part.name).numel()})).first->second;
        times.slice(0, part.begin, part.end) += 1;
      }
    });
    EXPECT_EQ(seen.size(), 6) << "the frozen weight is whole on each rank";
    for (const auto& [name, times] : seen) EXPECT_TRUE(times.eq(1).all().item<bool>()) << name << " " << ranks;
  }
}

TEST(Stage3Parts, AreThereWhileWeightsAreGatheredAndAfterTheyWereWritten) {
  fuse_ranks("tcp", 2, [&](const Group& group) {
    PartsSubject subject(group);
    subject.ddp.fused_step().unshard();
    {
      const torch::NoGradGuard no_grad;
      for (torch::Tensor& parameter : subject.model->parameters()) parameter.fill_(0.125);
    }
    for (const TensorPart& part : subject.ddp.fused_step().weight_parts())
      EXPECT_TRUE(part.tensor.eq(0.125).all().item<bool>());
    subject.step(group->rank(), 0);
  });
}

// Weights that were written are forgotten, and forwards read what was loaded, in bf16 too.
TEST(Stage3Parts, ThatAreLoadedAreWhatForwardsRead) {
  for (const c10::ScalarType compute : {at::kFloat, at::kBFloat16}) {
    fuse_ranks("tcp", 2, [&](const Group& group) {
      const Autocast autocast(c10::DeviceType::CPU, at::kBFloat16, compute == at::kBFloat16);
      PartsSubject subject(group, compute);
      for (int number = 0; number < 3; ++number) subject.step(group->rank(), number);
      std::vector<torch::Tensor> saved;
      for (const TensorPart& part : subject.ddp.fused_step().weight_parts()) saved.push_back(part.tensor.clone());
      const auto output = [&] {
        const torch::NoGradGuard no_grad;
        return subject.ddp(fuse_batch(0, 9, kPartsWidth));
      };
      const torch::Tensor want = output();
      subject.step(group->rank(), 4);
      EXPECT_FALSE(torch::equal(output(), want));
      subject.ddp.fused_step().unshard();
      {
        const torch::NoGradGuard no_grad;
        subject.model->layers[1]->as<torch::nn::Linear>()->weight.fill_(7);
      }
      subject.ddp.fused_step().write_weight_parts([&](const TensorParts& parts) {
        ASSERT_EQ(parts.size(), saved.size());
        for (std::size_t i = 0; i < parts.size(); ++i) parts[i].tensor.copy_(saved[i]);
      });
      EXPECT_TRUE(torch::equal(output(), want));
      subject.step(group->rank(), 5);
    });
  }
}

}  // namespace
}  // namespace lockstep
