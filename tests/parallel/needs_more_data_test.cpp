// Tests what docs/reference/needs-more-than-the-wrap.md says of loaders of one's own, of random numbers and of complex
// parameters: each recipe on two ranks, beside a computation without it in one process.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "lockstep/optim/sgd.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

constexpr int kDataRanks = 2;
constexpr int kDrawnSteps = 5;

torch::nn::Sequential data_net() {
  torch::nn::Sequential net(make_linear(4, 6), torch::nn::Tanh(), make_linear(6, 1));
  net->to(torch::kDouble);
  return net;
}

at::Tensor all_weights(const torch::nn::Module& net) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& parameter : net.parameters()) flat.push_back(parameter.detach().flatten());
  return torch::cat(flat).clone();
}

void expect_equal_weights(const at::Tensor& got, const at::Tensor& want) {
  EXPECT_TRUE(got.allclose(want, 1e-9, 1e-10)) << (got - want).abs().max();
}

using PairOfTensors = std::pair<at::Tensor, at::Tensor>;

// A loader as a program may have it: each pass draws an order from LibTorch's generator.
std::vector<PairOfTensors> own_loader() {
  const at::Tensor inputs = torch::linspace(-2, 3, 96, torch::kDouble).sin().view({24, 4});
  const at::Tensor targets = inputs.sum(1, true).cos();
  std::vector<PairOfTensors> batches;
  for (const at::Tensor& rows : torch::randperm(24).chunk(3)) {
    batches.emplace_back(inputs.index_select(0, rows), targets.index_select(0, rows));
  }
  return batches;
}

// Ranks are processes: the recipe's seed is that of LibTorch's generator, of which a process has one.
TEST(NeedsMoreData, ALoaderOfOnesOwnIsCutIntoTheRanksParts) {
  const auto train = [](const std::function<at::Tensor(const at::Tensor&)>& forward, torch::nn::Sequential& net,
                        const std::function<at::Tensor(const at::Tensor&)>& part) {
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.2).momentum(0.9));
    torch::manual_seed(1);
    for (int epoch = 0; epoch < 3; ++epoch) {
      for (const auto& [inputs, targets] : own_loader()) {
        (forward(part(inputs)) - part(targets)).pow(2).mean().backward();
        optimizer.step();
        optimizer.zero_grad();
      }
    }
    return all_weights(*net);
  };
  torch::nn::Sequential alone = data_net();
  const at::Tensor want =
      train([&](const at::Tensor& x) { return alone->forward(x); }, alone, [](const at::Tensor& all) { return all; });
  fuse_ranks("shm", kDataRanks, [&](const Group& group) {
    torch::nn::Sequential net = data_net();
    DistributedDataParallel ddp(net, fuse_on(group));
    const auto rank = static_cast<std::size_t>(group->rank());
    const auto part = [rank](const at::Tensor& all) { return all.chunk(kDataRanks)[rank]; };
    expect_equal_weights(train([&](const at::Tensor& x) { return ddp(x); }, net, part), want);
  });
}

// Games of its own on each rank: the mean over all ranks' games.
TEST(NeedsMoreData, ASeedForEachRankGivesEachItsOwnDraws) {
  constexpr std::uint64_t kSeed = 5;
  const auto loss_of = [](const at::Tensor& answers) { return answers.pow(2).mean(); };
  const auto draw = [](const c10::optional<at::Generator>& generator) {
    return torch::randn({4, 4}, generator, torch::TensorOptions().dtype(torch::kDouble));
  };
  torch::nn::Sequential alone = data_net();
  torch::optim::SGD of_alone(alone->parameters(), torch::optim::SGDOptions(0.1));
  std::vector<at::Generator> generators;
  for (std::uint64_t rank = 0; rank < kDataRanks; ++rank) {
    generators.push_back(at::make_generator<at::CPUGeneratorImpl>(kSeed + rank));
  }
  for (int step = 0; step < kDrawnSteps; ++step) {
    of_alone.zero_grad();
    for (const at::Generator& each : generators) (loss_of(alone->forward(draw(each))) / kDataRanks).backward();
    of_alone.step();
  }
  const at::Tensor want = all_weights(*alone);
  fuse_ranks("shm", kDataRanks, [&](const Group& group) {
    torch::nn::Sequential net = data_net();
    DistributedDataParallel ddp(net, fuse_on(group));
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1));
    torch::manual_seed(kSeed + static_cast<std::uint64_t>(group->rank()));
    for (int step = 0; step < kDrawnSteps; ++step) {
      optimizer.zero_grad();
      loss_of(ddp(draw(c10::nullopt))).backward();
      optimizer.step();
    }
    expect_equal_weights(all_weights(*net), want);
  });
}

// The page's filter: a complex parameter as two real numbers.
struct PairsFilterImpl : torch::nn::Module {
  explicit PairsFilterImpl(const at::Tensor& start) { pairs = register_parameter("pairs", start.clone()); }
  at::Tensor forward(const at::Tensor& x) {
    return torch::fft::irfft(torch::fft::rfft(x) * torch::view_as_complex(pairs));
  }
  at::Tensor pairs;
};
TORCH_MODULE(PairsFilter);

// Beside LibTorch's own complex parameter, over all samples. Its gradient is that of the real part, and i times that of
// the imaginary one.
TEST(NeedsMoreData, PairsOfRealNumbersTrainAsAComplexParameter) {
  const at::Tensor start = torch::linspace(-1, 1, 10, torch::kDouble).cos().view({5, 2});
  const auto inputs = [](int step) { return torch::linspace(-1, 1 + step, 32, torch::kDouble).sin().view({4, 8}); };
  const at::Tensor targets = torch::linspace(0, 4, 32, torch::kDouble).cos().view({4, 8});
  at::Tensor filter = torch::view_as_complex(start).clone().requires_grad_(true);
  for (int step = 0; step < kDrawnSteps; ++step) {
    const at::Tensor answer = torch::fft::irfft(torch::fft::rfft(inputs(step)) * filter);
    const at::Tensor gradient = torch::autograd::grad({(answer - targets).pow(2).mean()}, {filter})[0];
    const torch::NoGradGuard no_grad;
    filter.sub_(0.3 * gradient);
  }
  const at::Tensor want = torch::view_as_real(filter.detach());
  EXPECT_GT((want - start).abs().max().item<double>(), 0.01);
  for (const bool fused : {false, true}) {
    fuse_ranks("thread", kDataRanks, [&](const Group& group) {
      PairsFilter net(start);
      DistributedDataParallel ddp(net, fuse_on(group));
      SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.3));
      if (fused) ddp.fuse(optimizer);
      const auto rank = static_cast<std::size_t>(group->rank());
      for (int step = 0; step < kDrawnSteps; ++step) {
        optimizer.zero_grad();
        (ddp(inputs(step).chunk(kDataRanks)[rank]) - targets.chunk(kDataRanks)[rank]).pow(2).mean().backward();
        optimizer.step();
      }
      expect_equal_weights(net->pairs.detach(), want);
    });
  }
}

}  // namespace
}  // namespace lockstep
