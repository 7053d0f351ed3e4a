// Trains a small BERT from five seeds, in fp32 and in bf16 by published copies: losses in bf16 must lie where those of
// fp32 lie.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "lockstep/comm/spawn.h"
#include "lockstep/detail/tensor/autocast.h"
#include "lockstep/models/registry.h"
#include "lockstep/optim/adam.h"
#include "lockstep/parallel/distributed_data_parallel.h"

namespace lockstep {
namespace {

constexpr int kBandSeeds = 5;
constexpr int kBandSteps = 60;
constexpr int kBandPoints = 6;

using BandLosses = std::array<double, kBandPoints>;  // means of equally many steps

// Texts whose first token determines their class; the same ones in each epoch.
Batch band_batch(int step, int rank) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(2 * (step % 6) + rank));
  const at::Tensor ids = torch::randint(1, 100, {4, 12}, generator, torch::kLong);
  return {{"input_ids", ids},
          {"attention_mask", torch::ones({4, 12}, torch::kLong)},
          {"labels", ids.select(1, 0).gt(50).to(torch::kLong)}};
}

std::shared_ptr<Model> band_model(int seed) {
  torch::manual_seed(static_cast<std::uint64_t>(seed));
  ModelOptions small;
  small.num_labels = 2;
  small.vocab_size = 100;
  small.dropout = 0;
  return make_model("bert-tiny", small);
}

BandLosses train_for_band(int seed, bool bf16) {
  BandLosses losses{};
  const std::vector<std::shared_ptr<Model>> models{band_model(seed), band_model(seed)};
  spawn_threads(2, [&](const std::shared_ptr<Communicator>& group) {
    const std::shared_ptr<Model>& model = models[static_cast<std::size_t>(group->rank())];
    DistributedDataParallelOptions options;
    options.process_group = group;
    if (bf16) options.compute_dtype = at::kBFloat16;
    DistributedDataParallel ddp(model, options);
    AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(5e-4));
    EXPECT_EQ(ddp.fuse(optimizer).mode(), FuseMode::SharedWeights);
    for (int step = 0; step < kBandSteps; ++step) {
      const Batch batch = band_batch(step, group->rank());
      optimizer.zero_grad();
      at::Tensor output;
      {
        const Autocast autocast(c10::DeviceType::CPU, at::kBFloat16, bf16);
        output = ddp(batch).to(at::kFloat);
      }
      const at::Tensor loss = model->loss(output, batch).mean();
      loss.backward();
      optimizer.step();
      at::Tensor mean = loss.detach().to(torch::kDouble).reshape({1});
      group->all_reduce(mean, ReduceOp::Avg);
      if (group->rank() != 0) continue;
      losses[static_cast<std::size_t>(step * kBandPoints / kBandSteps)] +=
          mean.item<double>() * kBandPoints / kBandSteps;
    }
  });
  return losses;
}

// Seconds: ten trainings of a small BERT.
TEST(Bf16Band, LossesOfBertAreThoseOfFp32OverFiveSeeds) {
  std::array<std::vector<double>, kBandPoints> fp32, bf16;
  bool any_differs = false;
  for (int seed = 0; seed < kBandSeeds; ++seed) {
    const BandLosses exact = train_for_band(seed, false), rounded = train_for_band(seed, true);
    any_differs = any_differs || exact != rounded;
    for (std::size_t point = 0; point < kBandPoints; ++point) {
      fp32[point].push_back(exact[point]);
      bf16[point].push_back(rounded[point]);
    }
  }
  EXPECT_TRUE(any_differs) << "nothing was computed in bf16";
  for (std::size_t point = 0; point < kBandPoints; ++point) {
    const auto [low, high] = std::minmax_element(fp32[point].begin(), fp32[point].end());
    const double slack = 0.25 * (*high - *low) + 0.01;
    double mean = 0;
    for (const double loss : bf16[point]) mean += loss / kBandSeeds;
    EXPECT_GE(mean, *low) << "point " << point;
    EXPECT_LE(mean, *high) << "point " << point;
    for (const double loss : bf16[point]) {
      EXPECT_GE(loss, *low - slack) << "point " << point;
      EXPECT_LE(loss, *high + slack) << "point " << point;
    }
    RecordProperty("band_" + std::to_string(point),
                   std::to_string(*low) + " to " + std::to_string(*high) + ", mean in bf16 " + std::to_string(mean));
  }
  EXPECT_LT(*std::max_element(bf16.back().begin(), bf16.back().end()), 0.3) << "it has not learnt";
}

}  // namespace
}  // namespace lockstep
