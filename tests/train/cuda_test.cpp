// Compares Trainer and Accelerator on CUDA devices with the CPU. Ranks are processes; this one does not use CUDA, so
// that it can fork others.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string>

#include "lockstep/checkpoint/generators.h"
#include "lockstep/comm/factory.h"
#include "lockstep/data/tensor_dataset.h"
#include "lockstep/net/subgroup.h"
#include "lockstep/safetensors/safetensors.h"
#include "lockstep/train/accelerator.h"
#include "lockstep/train/trainer.h"
#include "tests/support/cuda_devices.h"
#include "tests/support/ranks.h"
#include "tests/train/token_training.h"

namespace lockstep {
namespace {

// The weights after a short training with these options, on the CPU.
NamedTensors weights_after(TokenTraining& training, bool use_cpu) {
  training.options.args.num_train_epochs = 2;
  training.options.args.use_cpu = use_cpu;
  Trainer trainer(training.options);
  trainer.train();
  NamedTensors weights = weights_of(*training.options.model);
  for (auto& [name, tensor] : weights) {
    EXPECT_EQ(tensor.is_cuda(), !use_cpu) << name;
    tensor = tensor.detach().cpu().clone();
  }
  return weights;
}

NamedTensors trained(const Membership& membership, bool use_cpu) {
  ::setenv("LOCAL_RANK", std::to_string(membership.rank).c_str(), 1);
  TokenTraining training(24);
  training.options.process_group = make_communicator("", membership);
  return weights_after(training, use_cpu);
}

void expect_near(const NamedTensors& got, const NamedTensors& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_TRUE(got[i].second.allclose(want[i].second, 1e-3, 1e-4)) << want[i].first;
  }
}

class CudaTrainer : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, CudaTrainer, ::testing::Values(1, 2, 8), ::testing::PrintToStringParamName());

TEST_P(CudaTrainer, TrainsAsOnTheCpu) {
  SKIP_WITHOUT_CUDA(GetParam());
  run_ranks_as_processes(GetParam(), [](const Membership& membership) {
    std::vector<int> all(static_cast<std::size_t>(membership.world_size));
    std::iota(all.begin(), all.end(), 0);
    const NamedTensors cpu = trained(subgroup(membership, all, "cpu ranks"), true);
    const NamedTensors cuda = trained(subgroup(membership, all, "cuda ranks"), false);
    expect_near(cuda, cpu);
  });
}

// As with Hugging Face's Trainer: all devices if nobody made the process a rank, of which each gets a batch.
TEST(CudaTrainerAlone, TakesAllDevicesUnlessALauncherStartedIt) {
  SKIP_WITHOUT_CUDA(2);
  run_ranks_as_processes(1, [](const Membership&) {
    const auto devices = static_cast<std::int64_t>(torch::cuda::device_count());
    const auto weights_with = [](bool use_cpu, std::int64_t batch_size) {
      TokenTraining training(24);
      training.options.args.per_device_train_batch_size = batch_size;
      NamedTensors weights = weights_after(training, use_cpu);
      EXPECT_EQ(training.has_printed("DataParallel"), !use_cpu && std::getenv("LOCAL_RANK") == nullptr);
      return weights;
    };
    for (const char* name : {"LOCAL_RANK", "WORLD_SIZE"}) ::unsetenv(name);
    expect_near(weights_with(false, 2), weights_with(true, 2 * devices));
    ::setenv("LOCAL_RANK", "1", 1);
    expect_near(weights_with(false, 2), weights_with(true, 2));
  });
}

TEST_P(CudaTrainer, HasAnAcceleratorBesideIt) {
  SKIP_WITHOUT_CUDA(GetParam());
  run_ranks_as_processes(GetParam(), [](const Membership& membership) {
    ::setenv("LOCAL_RANK", std::to_string(membership.rank).c_str(), 1);
    AcceleratorOptions options;
    options.ddp.process_group = make_communicator("", membership);
    Accelerator accelerator(options);
    ASSERT_TRUE(accelerator.device().is_cuda());
    EXPECT_EQ(accelerator.device().index(), membership.rank);
    torch::manual_seed(3);
    torch::nn::Linear net(2, 1);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    DataLoaderOptions reading;
    reading.batch_size = 2;
    const at::Tensor x = torch::arange(16, torch::kFloat).view({8, 2}).div(10);
    auto [model, optimizer, loader] = accelerator.prepare(
        net, sgd, DataLoader(std::make_shared<TensorDataset>(Batch{{"x", x}, {"y", x.sum(1, true)}}), reading));
    double first = 0, last = 0;
    for (int epoch = 0; epoch < 20; ++epoch) {
      for (auto& batch : loader) {
        EXPECT_EQ(batch["x"].device(), accelerator.device());
        optimizer.zero_grad();
        const at::Tensor loss = (model(batch["x"]) - batch["y"]).square().mean();
        accelerator.backward(loss);
        optimizer.step();
        last = accelerator.reduce(loss, "mean").item<double>();
        if (epoch == 0 && first == 0) first = last;
      }
    }
    EXPECT_LT(last, first / 2);
    EXPECT_EQ(accelerator.gather(net->bias).numel(), membership.world_size);
  });
}

TEST(CudaTrainerAlone, SavesTheGeneratorsOfAllDevices) {
  SKIP_WITHOUT_CUDA(2);
  run_ranks_as_processes(1, [](const Membership&) {
    for (const char* name : {"LOCAL_RANK", "WORLD_SIZE"}) ::unsetenv(name);
    TokenTraining training(24);
    training.options.args.save_strategy = "epoch";
    Trainer trainer(training.options);
    trainer.train();
    const std::string steps = std::to_string(trainer.state().global_step);
    const SafetensorsFile file(training.folder.path() + "/checkpoint-" + steps + "/rng_state_0.safetensors");
    EXPECT_TRUE(file.contains("cuda"));
    for (int device = 1; device < static_cast<int>(torch::cuda::device_count()); ++device) {
      EXPECT_TRUE(file.contains("cuda:" + std::to_string(device))) << device;
    }
  });
}

// Replicas of one process draw on their own devices.
TEST(CudaGenerators, OfAllDevicesContinueWhereTheyStood) {
  SKIP_WITHOUT_CUDA(2);
  run_ranks_as_processes(1, [](const Membership&) {
    const auto draw = [] {
      std::vector<at::Tensor> drawn;
      for (const char* device : {"cuda:0", "cuda:1"}) {
        drawn.push_back(torch::rand({8}, at::TensorOptions(c10::Device(device))).cpu());
      }
      return drawn;
    };
    Generators generators(std::vector<int>{0, 1});
    draw();
    NamedTensors state = generators.state();
    EXPECT_EQ(state.size(), 3u);
    const std::vector<at::Tensor> want = draw();
    draw();
    generators.load_state(state);
    const std::vector<at::Tensor> got = draw();
    EXPECT_TRUE(got[0].equal(want[0]));
    EXPECT_TRUE(got[1].equal(want[1]));
    const auto is_of_second = [](const NamedTensors::value_type& each) { return each.first == "cuda:1"; };
    state.erase(std::remove_if(state.begin(), state.end(), is_of_second), state.end());
    generators.load_state(state);  // of one device: the second one's generator stays as it is
    EXPECT_TRUE(draw()[0].equal(want[0]));
  });
}

}  // namespace
}  // namespace lockstep
