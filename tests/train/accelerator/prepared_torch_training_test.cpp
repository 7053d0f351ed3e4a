// Compares trainings with loaders of torch::data under an Accelerator with trainings by LibTorch alone.
#include <gtest/gtest.h>

#include "tests/support/ranks.h"
#include "tests/train/numbered_rows.h"

namespace lockstep {
namespace {

torch::nn::Linear line_to_fit() {
  torch::nn::Linear net(1, 1);
  const torch::NoGradGuard no_grad;
  net->to(torch::kDouble);
  net->weight.fill_(0.5);
  net->bias.fill_(0.1);
  return net;
}

at::Tensor line_weights(torch::nn::Linear& net) {
  return torch::cat({net->weight.detach().view(-1), net->bias.detach()});
}

// The loop for one process, by LibTorch alone, with shuffling, and with noise from the same generator in every step.
at::Tensor fitted_alone(std::int64_t batch_size, std::size_t workers) {
  torch::manual_seed(7);
  torch::nn::Linear net = line_to_fit();
  torch::optim::SGD sgd(net->parameters(), 0.02);
  auto loader = torch::data::make_data_loader(stacked_rows(24), torch_options(batch_size, workers));
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (auto& batch : *loader) {
      sgd.zero_grad();
      (net(batch.data) - batch.target / 3).pow(2).mean().backward();
      sgd.step();
      torch::rand({3});
    }
  }
  return line_weights(net);
}

// LibTorch's RandomSampler draws from a generator that each process has for itself, so the ranks start with different
// states on purpose.
TEST(PreparedTorchTraining, TrainsOnSeveralRanksAsOneProcessDoes) {
  for (const int ranks : {1, 2, 3}) {
    for (const std::size_t workers : {0U, 2U}) {
      const at::Tensor wanted = fitted_alone(6, workers);
      run_ranks_as_processes(ranks, [&](const Membership& membership) {
        Accelerator accelerator(options_on("", membership));
        torch::manual_seed(7 + static_cast<std::uint64_t>(membership.rank));
        torch::nn::Linear net = line_to_fit();
        torch::optim::SGD sgd(net->parameters(), 0.02);
        auto data = torch::data::make_data_loader(stacked_rows(24), torch_options(6 / ranks, workers));
        auto [model, optimizer, loader] = accelerator.prepare(net, sgd, *data);
        for (int epoch = 0; epoch < 3; ++epoch) {
          for (auto& batch : loader) {
            optimizer.zero_grad();
            accelerator.backward((model(batch.data) - batch.target / 3).pow(2).mean());
            optimizer.step();
            torch::rand({3});
          }
        }
        EXPECT_TRUE(torch::allclose(line_weights(net), wanted, 1e-12, 1e-12)) << line_weights(net) << wanted;
      });
    }
  }
}

// Ranks with equal seeds draw equal numbers afterwards; ranks with different seeds do not.
TEST(PreparedTorchTraining, LeavesEachRankItsRandomNumbers) {
  for (const bool alike : {true, false}) {
    run_ranks_as_processes(2, [&](const Membership& membership) {
      Accelerator accelerator(options_on("", membership));
      torch::manual_seed(alike ? 3 : 3 + static_cast<std::uint64_t>(membership.rank));
      auto data = torch::data::make_data_loader(stacked_rows(8), torch_options(2));
      auto [loader] = accelerator.prepare(*data);
      for (int pass = 0; pass < 2; ++pass) {
        for (auto& batch : loader) EXPECT_EQ(batch.data.size(0), 2);
        const at::Tensor drawn = accelerator.gather(torch::rand({3})).view({2, 3});
        EXPECT_EQ(drawn[0].equal(drawn[1]), alike);
      }
    });
  }
}

TEST(PreparedTorchTraining, EndsAWindowOfAccumulationWithTheLoader) {
  run_ranks_as_threads(2, [](const Membership& membership) {
    AcceleratorOptions options = options_on("thread", membership);
    options.gradient_accumulation_steps = 3;
    Accelerator accelerator(options);
    torch::nn::Linear net = line_to_fit();
    torch::nn::Linear wanted = line_to_fit();
    torch::optim::SGD sgd(net->parameters(), 0.02);
    torch::optim::SGD sgd_of_wanted(wanted->parameters(), 0.02);
    using torch::data::samplers::SequentialSampler;
    auto data = torch::data::make_data_loader<SequentialSampler>(stacked_rows(20), torch_options(2));
    auto [model, optimizer, loader] = accelerator.prepare(net, sgd, *data);
    std::vector<int> updates;
    int batches = 0;
    for (auto& batch : loader) {
      ++batches;
      const auto scope = accelerator.accumulate(model);
      accelerator.backward((model(batch.data) - batch.target / 3).pow(2).mean());
      optimizer.step();
      optimizer.zero_grad();
      if (accelerator.sync_gradients()) updates.push_back(batches);
    }
    EXPECT_EQ(updates, (std::vector<int>{3, 5}));  // five batches on each rank: windows of three and of two
    for (const auto& [first, count] : {std::pair{0, 12}, std::pair{12, 8}}) {
      const at::Tensor rows = torch::arange(first, first + count, torch::kDouble).unsqueeze(1);
      sgd_of_wanted.zero_grad();
      (wanted(rows / 10) - rows / 3).pow(2).mean().backward();
      sgd_of_wanted.step();
    }
    EXPECT_TRUE(torch::allclose(line_weights(net), line_weights(wanted), 1e-12, 1e-12));
  });
}

}  // namespace
}  // namespace lockstep
