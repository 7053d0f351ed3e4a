// Tests programs in which modules are wrapped more than once, or share layers, and modules of mixed types: two ranks
// must end with the weights of one process over all samples, with and without fuse.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/parallel/loops/loop_run.h"

namespace lockstep {
namespace {

constexpr int kSharedSteps = 5;

struct EncoderAndHeadImpl : torch::nn::Module {
  EncoderAndHeadImpl(const torch::nn::Sequential& encodes, const torch::nn::Sequential& answers)
      : encoder(register_module("encoder", encodes)), head(register_module("head", answers)) {}
  at::Tensor forward(const at::Tensor& x) { return head->forward(encoder->forward(x)); }
  torch::nn::Sequential encoder, head;
};
TORCH_MODULE(EncoderAndHead);

using LoopPair = LoopModel<EncoderAndHead>;

// How two losses are computed, and whose wrapper fuses the optimizer.
struct SharedOrder {
  bool is_one_backward;
  bool is_second_first;
  bool fuses_second;
  bool accumulates;  // a backward of one loss comes before
};

// One optimizer trains what the two losses of a step reach.
at::Tensor train_together(const SharedOrder& order, const std::vector<at::Tensor>& parameters,
                          const std::function<void(FlatOptimizer&)>& fuse,
                          const std::function<at::Tensor(int)>& first_loss,
                          const std::function<at::Tensor(int)>& second_loss, const std::function<at::Tensor()>& end) {
  SGD optimizer(parameters, torch::optim::SGDOptions(0.1));
  fuse(optimizer);
  for (int step = 0; step < kSharedSteps; ++step) {
    optimizer.zero_grad();
    if (order.accumulates) (3 * first_loss(step + 30)).backward();
    at::Tensor one = order.is_second_first ? second_loss(step) : first_loss(step);
    at::Tensor other = order.is_second_first ? first_loss(step) : second_loss(step);
    if (order.is_one_backward) {
      (one + other).backward();
    } else {
      one.backward();
      other.backward();
    }
    optimizer.step();
  }
  return end();
}

template <typename First, typename Second>
std::function<void(FlatOptimizer&)> fuse_one_of(const SharedOrder& order, First& first, Second& second) {
  return [&](FlatOptimizer& optimizer) {
    if (order.fuses_second) second.fuse(optimizer);
    if (!order.fuses_second) first.fuse(optimizer);
  };
}

at::Tensor wrapped_twice(const LoopRun& run, const SharedOrder& order) {
  const torch::nn::Sequential net = loop_net();
  LoopNet first(run, net), second(run, net);
  return train_together(
      order, net->parameters(), fuse_one_of(order, first, second), [&](int step) { return first.mean_loss(run, step); },
      [&](int step) { return second(run.inputs(step + 9)).pow(2).mean(); },
      [&] {
        return torch::cat({first.end(), second.end()});
      });
}

at::Tensor shared_encoder(const LoopRun& run, const SharedOrder& order) {
  const torch::nn::Sequential encoder = loop_net(4);
  LoopPair first(run, EncoderAndHead(encoder, loop_net())), second(run, EncoderAndHead(encoder, loop_net()));
  std::vector<at::Tensor> all = first.module()->parameters();
  for (const at::Tensor& each : second.module()->head->parameters()) all.push_back(each);
  return train_together(
      order, all, fuse_one_of(order, first, second), [&](int step) { return first.mean_loss(run, step); },
      [&](int step) { return 2 * second.mean_loss(run, step + 9); },
      [&] {
        return torch::cat({first.end(), second.end()});
      });
}

at::Tensor a_part_and_the_whole(const LoopRun& run, const SharedOrder& order) {
  EncoderAndHead net(loop_net(4), loop_net());
  LoopNet part(run, net->encoder);
  LoopPair whole(run, net);
  return train_together(
      order, net->parameters(), fuse_one_of(order, part, whole),
      [&](int step) { return 0.1 * part(run.inputs(step)).pow(2).mean(); },
      [&](int step) { return whole.mean_loss(run, step); },
      [&] {
        return torch::cat({part.end(), whole.end()});
      });
}

struct SharedLoop {
  const char* name;
  at::Tensor (*train)(const LoopRun& run, const SharedOrder& order);
  friend std::ostream& operator<<(std::ostream& out, const SharedLoop& loop) { return out << loop.name; }
};

class SharedModules : public ::testing::TestWithParam<SharedLoop> {};

INSTANTIATE_TEST_SUITE_P(Table, SharedModules,
                         ::testing::Values(SharedLoop{"wrapped_twice", wrapped_twice},
                                           SharedLoop{"shared_encoder", shared_encoder},
                                           SharedLoop{"a_part_and_the_whole", a_part_and_the_whole}),
                         [](const auto& test) { return std::string(test.param.name); });

// Both wrappers are called for each gradient of what they share, and one of them averages it. Several buckets: one may
// leave before the other wrapper is called.
TEST_P(SharedModules, TrainAsInOneProcess) {
  for (int bits = 0; bits < 16; ++bits) {
    const SharedOrder order{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0};
    const at::Tensor want = GetParam().train(LoopRun(), order);
    for (const LoopWay way : {LoopWay::Unfused, LoopWay::OneCopy, LoopWay::OwnCopies}) {
      if (way == LoopWay::Unfused && order.fuses_second) continue;
      fuse_ranks("thread", 2, [&](const Group& group) {
        const at::Tensor got = GetParam().train({group, way}, order);
        EXPECT_TRUE(got.allclose(want, 1e-9, 1e-10))
            << (got - want).abs().max() << " in way " << static_cast<int>(way) << ", order " << bits;
      });
    }
  }
}

// fp64 before fp32, and a buffer of whole numbers.
struct MixedTypesImpl : torch::nn::Module {
  MixedTypesImpl() {
    register_module("wide", wide);
    register_module("narrow", narrow);
    wide->to(torch::kDouble);
    calls = register_buffer("calls", torch::zeros({1}, torch::kLong));
  }
  at::Tensor forward(const at::Tensor& x) {
    if (is_training()) calls.add_(1);
    return narrow(torch::tanh(wide(x)).to(torch::kFloat)).to(torch::kDouble);
  }
  torch::nn::Linear wide = make_linear(4, 8), narrow = make_linear(8, 1);
  at::Tensor calls;
};
TORCH_MODULE(MixedTypes);

at::Tensor of_mixed_types(const LoopRun& run) {
  LoopModel<MixedTypes> net(run, MixedTypes());
  lockstep::SGD optimizer(net.module()->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  net.fuse(optimizer);
  for (int step = 0; step < kSharedSteps; ++step) {
    optimizer.zero_grad();
    net.mean_loss(run, step).backward();
    optimizer.step();
  }
  EXPECT_EQ(net.module()->calls.item<std::int64_t>(), kSharedSteps);
  return net.end();
}

TEST(SharedModulesOnce, MixedTypesTrainAsInOneProcess) {
  const at::Tensor want = of_mixed_types(LoopRun());
  for (const LoopWay way : {LoopWay::Unfused, LoopWay::OneCopy, LoopWay::OwnCopies, LoopWay::Stage2, LoopWay::Stage3}) {
    SCOPED_TRACE(static_cast<int>(way));
    fuse_ranks("thread", 2, [&](const Group& group) {
      const at::Tensor got = of_mixed_types({group, way});
      EXPECT_TRUE(got.allclose(want, 1e-5, 1e-6)) << (got - want).abs().max();
    });
  }
}

}  // namespace
}  // namespace lockstep
