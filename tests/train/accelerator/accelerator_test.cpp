// Tests that, with four changed lines, a loop for one process gives the same result on many.
#include "lockstep/train/accelerator.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <mutex>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "lockstep/data/distributed_sampler.h"
#include "lockstep/data/tensor_dataset.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/lr_scheduler.h"
#include "lockstep/optim/schedule.h"
#include "tests/support/ranks.h"
#include "tests/train/same_values.h"
#include "tests/train/torch_releases.h"

namespace lockstep {
namespace {

using torch::nn::Linear;

// Rows that contain their number, and targets that a line with one weight fits.
std::shared_ptr<const Dataset> numbered_rows(std::int64_t count) {
  const at::Tensor numbers = torch::arange(count, torch::kFloat);
  return std::make_shared<TensorDataset>(
      Batch{{"x", (numbers / 10).unsqueeze(1)}, {"y", (numbers * 0.3 - 1).unsqueeze(1)}, {"number", numbers}});
}

DataLoader loader_of(std::int64_t count, std::int64_t batch_size, bool shuffle = false) {
  DataLoaderOptions options;
  options.batch_size = batch_size;
  options.shuffle = shuffle;
  return DataLoader(numbered_rows(count), options);
}

Linear unit_linear() {
  Linear net(1, 1);
  const torch::NoGradGuard no_grad;
  net->weight.fill_(0.5);
  net->bias.fill_(0.1);
  return net;
}

using OnRank = std::function<void(Accelerator&)>;

void on_ranks(int world_size, const OnRank& body, const AcceleratorOptions& options = {}) {
  run_ranks_as_threads(world_size, [&](const Membership& membership) {
    AcceleratorOptions mine = options;
    mine.ddp.process_group = make_communicator("thread", membership);
    Accelerator accelerator(mine);
    body(accelerator);
  });
}

std::string accelerator_error(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

at::Tensor squared_error(const at::Tensor& output, const at::Tensor& target) { return (output - target).pow(2).mean(); }

// The weights after two epochs of a loop without ranks.
at::Tensor trained_alone(std::int64_t samples, std::int64_t batch_size) {
  Linear net = unit_linear();
  torch::optim::SGD sgd(net->parameters(), 0.05);
  for (int epoch = 0; epoch < 2; ++epoch) {
    DataLoader loader = loader_of(samples, batch_size);
    for (Batch& batch : loader) {
      sgd.zero_grad();
      squared_error(net(batch["x"]), batch["y"]).backward();
      sgd.step();
    }
  }
  return torch::cat({net->weight.detach().view(-1), net->bias.detach()});
}

TEST(Accelerator, TrainsAsOneProcessDoes) {
  const at::Tensor alone = trained_alone(24, 6);
  for (const bool split : {false, true}) {
    AcceleratorOptions options;
    options.split_batches = split;
    on_ranks(
        3,
        [&](Accelerator& accelerator) {
          Linear net = unit_linear();
          torch::optim::SGD sgd(net->parameters(), 0.05);
          auto [model, optimizer, loader] = accelerator.prepare(net, sgd, loader_of(24, split ? 6 : 2));
          EXPECT_EQ(loader.size(), 4);
          EXPECT_EQ(loader.total_batch_size(), 6);
          for (int epoch = 0; epoch < 2; ++epoch) {
            for (Batch& batch : loader) {
              optimizer.zero_grad();
              accelerator.backward(squared_error(model(batch["x"]), batch["y"]));
              optimizer.step();
            }
          }
          const at::Tensor mine = torch::cat({net->weight.detach().view(-1), net->bias.detach()});
          EXPECT_TRUE(torch::allclose(mine, alone, 1e-6, 1e-7)) << mine << alone;
          EXPECT_EQ(Accelerator::unwrap_model(model)->weight.data_ptr(), net->weight.data_ptr());
        },
        options);
  }
}

TEST(Accelerator, DividesAWindowByTheBatchesThatItHas) {
  // Five batches and windows of two: the last update has only one batch.
  for (const bool zero_first : {false, true}) {
    AcceleratorOptions options;
    options.gradient_accumulation_steps = 2;
    on_ranks(
        2,
        [&](Accelerator& accelerator) {
          Linear net = unit_linear();
          Linear wanted = unit_linear();
          torch::optim::SGD sgd(net->parameters(), 0.05);
          torch::optim::SGD sgd_of_wanted(wanted->parameters(), 0.05);
          auto [model, optimizer, loader] = accelerator.prepare(net, sgd, loader_of(20, 2));
          // 20 rows on two ranks: rank r has rows r, r + 2, ...; the updates have 8, 8 and 4 of them.
          const Batch all = loader.dataset()->get_batch(
              std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19});
          std::vector<std::pair<int, int>> updates{{0, 8}, {8, 8}, {16, 4}};
          std::size_t done = 0;
          for (Batch& batch : loader) {
            const auto scope = accelerator.accumulate(model);
            if (zero_first) optimizer.zero_grad();
            accelerator.backward(squared_error(model(batch["x"]), batch["y"]));
            optimizer.step();
            if (accelerator.sync_gradients()) {
              const auto [first, count] = updates.at(done++);
              sgd_of_wanted.zero_grad();
              squared_error(wanted(all.at("x").narrow(0, first, count)), all.at("y").narrow(0, first, count))
                  .backward();
              sgd_of_wanted.step();
              EXPECT_TRUE(torch::allclose(net->weight, wanted->weight, 1e-6, 1e-7)) << done;
            }
            if (!zero_first) optimizer.zero_grad();
          }
          EXPECT_EQ(done, 3U);
        },
        options);
  }
}

TEST(Accelerator, StepsASchedulerOnceForEachUpdate) {
  AcceleratorOptions options;
  options.gradient_accumulation_steps = 3;
  on_ranks(
      2,
      [](Accelerator& accelerator) {
        Linear net = unit_linear();
        Adam adam(net->parameters(), torch::optim::AdamOptions(0.1));
        LambdaLR constant(adam, make_schedule("constant", {}));
        auto [model, optimizer, loader, scheduler] = accelerator.prepare(net, adam, loader_of(14, 1), constant);
        for (Batch& batch : loader) {
          const auto scope = accelerator.accumulate(model);
          accelerator.backward(squared_error(model(batch["x"]), batch["y"]));
          optimizer.step();
          scheduler.step();
          optimizer.zero_grad();
        }
        EXPECT_EQ(constant.last_step(), 3);  // seven batches: 3, 3, 1
      },
      options);
}

TEST(Accelerator, ClipsWhereAnUpdateFollows) {
  AcceleratorOptions options;
  options.gradient_accumulation_steps = 2;
  on_ranks(
      2,
      [](Accelerator& accelerator) {
        Linear net = unit_linear();
        torch::optim::SGD sgd(net->parameters(), 0.05);
        auto [model, optimizer, loader] = accelerator.prepare(net, sgd, loader_of(8, 2));
        std::vector<bool> clipped;
        for (Batch& batch : loader) {
          const auto scope = accelerator.accumulate(model);
          accelerator.backward(squared_error(model(batch["x"]), batch["y"] + 100));
          clipped.push_back(accelerator.clip_grad_norm_(net->parameters(), 0.5) > 0.5);
          if (clipped.back()) {
            const at::Tensor gradient = torch::cat({net->weight.grad().view(-1), net->bias.grad()});
            EXPECT_NEAR(gradient.norm().item<double>(), 0.5, 1e-4);
          }
          optimizer.step();
          optimizer.zero_grad();
        }
        EXPECT_EQ(clipped, (std::vector<bool>{false, true}));
      },
      options);
}

TEST(Accelerator, GathersMetricsWithoutRepeatedSamples) {
  for (const bool even : {true, false}) {
    for (const std::int64_t samples : {1, 7, 10, 12}) {
      AcceleratorOptions options;
      options.even_batches = even;
      on_ranks(
          3,
          [&](Accelerator& accelerator) {
            auto [loader] = accelerator.prepare(loader_of(samples, 2));
            std::vector<float> seen;
            // A rank with an uneven share may have a batch less, and then contributes nothing.
            auto batch = loader.begin();
            for (int turn = 0; turn < (samples + 5) / 6; ++turn) {
              at::Tensor numbers = torch::empty({0});
              if (batch != loader.end()) numbers = (*batch)["number"];
              const at::Tensor all = accelerator.gather_for_metrics(numbers);
              for (std::int64_t i = 0; i < all.size(0); ++i) seen.push_back(all[i].item<float>());
              if (turn + 1 < (samples + 5) / 6) ++batch;
            }
            std::vector<float> wanted(static_cast<std::size_t>(samples));
            std::iota(wanted.begin(), wanted.end(), 0.F);
            EXPECT_EQ(seen, wanted) << samples << (even ? " even" : " uneven");
          },
          options);
    }
  }
}

TEST(Accelerator, GathersReducesAndPads) {
  on_ranks(3, [](Accelerator& accelerator) {
    const int rank = accelerator.process_index();
    EXPECT_TRUE(torch::equal(accelerator.gather(torch::full({2}, rank)), torch::tensor({0, 0, 1, 1, 2, 2}, at::kLong)));
    EXPECT_TRUE(torch::equal(accelerator.gather(torch::tensor(rank * 2.5)), torch::tensor({0.F, 2.5F, 5.F})));
    EXPECT_TRUE(torch::equal(accelerator.gather(torch::tensor({rank == 1})), torch::tensor({false, true, false})));
    const at::Tensor mine = torch::full({2}, rank + 1.0);
    EXPECT_EQ(accelerator.reduce(mine)[0].item<double>(), 6);
    EXPECT_EQ(accelerator.reduce(mine, "mean", 10)[1].item<double>(), 20);
    EXPECT_EQ(accelerator.reduce(mine, "max")[0].item<double>(), 3);
    EXPECT_EQ(accelerator.reduce(mine, "none")[0].item<double>(), rank + 1.0);
    EXPECT_EQ(mine[0].item<double>(), rank + 1.0);
    const at::Tensor padded = accelerator.pad_across_processes(torch::ones({2, rank + 1}), 1, 7);
    EXPECT_EQ(padded.sizes(), (at::IntArrayRef{2, 3}));
    EXPECT_EQ(padded.sum().item<double>(), 2 * (rank + 1) + 14.0 * (2 - rank));
    EXPECT_EQ(accelerator.pad_across_processes(torch::ones({2, rank + 1}), -1).size(1), 3) << "from the end";
    EXPECT_EQ(accelerator.pad_across_processes(torch::ones({rank + 1}), 0, 0, true)[2].item<double>(), 1);
    EXPECT_FALSE(accelerator.check_trigger());
    if (rank == 1) accelerator.set_trigger();
    EXPECT_TRUE(accelerator.check_trigger());
    EXPECT_FALSE(accelerator.check_trigger());
  });
}

class AcceleratorOfDtype : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(AcceleratorOfDtype, GathersAndPads) {
  const at::ScalarType dtype = GetParam();
  const auto of_dtype = [&](std::vector<std::int64_t> values) { return torch::tensor(values, torch::kLong).to(dtype); };
  on_ranks(2, [&](Accelerator& accelerator) {
    const int rank = accelerator.process_index();
    const at::Tensor mine = rank == 0 ? of_dtype({0, 1}) : of_dtype({1});
    const auto expect = [](const at::Tensor& got, const at::Tensor& want, const char* what) {
      EXPECT_TRUE(same_values(got, want)) << what;
    };
    expect(accelerator.gather(mine.slice(0, 0, 1)), of_dtype({0, 1}), "gather");
    expect(accelerator.gather(mine[0]), of_dtype({0, 1}), "gather of scalars");
    expect(accelerator.pad_across_processes(mine, 0, 1), of_dtype({rank, 1}), "pad at the end");
    expect(accelerator.pad_across_processes(mine, 0, 0, true), of_dtype({0, 1}), "pad at the beginning");
    expect(accelerator.gather_for_metrics(mine), of_dtype({0, 1, 1}), "gather_for_metrics");
  });
}
INSTANTIATE_TEST_SUITE_P(Table, AcceleratorOfDtype,
                         ::testing::Values(at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf,
                                           at::kBFloat16, at::kFloat, at::kDouble, at::kComplexHalf, at::kComplexFloat,
                                           at::kComplexDouble),
                         [](const auto& test) { return std::string(c10::toString(test.param)); });

TEST(Accelerator, SplitsWhatEachRankIsToDo) {
  on_ranks(3, [](Accelerator& accelerator) {
    const auto rank = static_cast<std::size_t>(accelerator.process_index());
    const std::vector<std::string> words{"a", "b", "c", "d"};
    const std::vector<std::vector<std::string>> parts{{"a", "b"}, {"c"}, {"d"}};
    const std::vector<std::vector<std::string>> padded{{"a", "b"}, {"c", "d"}, {"d", "d"}};
    EXPECT_EQ(accelerator.split_between_processes(words), parts[rank]);
    EXPECT_EQ(accelerator.split_between_processes(words, true), padded[rank]);
    const at::Tensor rows = torch::arange(4);
    const std::int64_t first[] = {0, 2, 3};
    EXPECT_EQ(accelerator.split_between_processes(rows)[0].item<std::int64_t>(), first[rank]);
    EXPECT_EQ(accelerator.split_between_processes(rows, true).size(0), 2);
  });
}

TEST(Accelerator, LetsOneRankGoFirst) {
  std::atomic<int> entered{0};
  on_ranks(3, [&](Accelerator& accelerator) {
    accelerator.main_process_first([&] {
      if (accelerator.is_main_process()) {
        EXPECT_EQ(entered, 0);
      }
      ++entered;
    });
    accelerator.wait_for_everyone();
    EXPECT_EQ(entered, 3);
  });
}

TEST(Accelerator, ComputesInBf16AndReturnsFp32) {
  AcceleratorOptions options;
  options.mixed_precision = "bf16";
  on_ranks(
      2,
      [](Accelerator& accelerator) {
        Linear net = unit_linear();
        torch::optim::SGD sgd(net->parameters(), 0.05);
        auto [model, optimizer] = accelerator.prepare(net, sgd);
        const at::Tensor input = torch::full({1, 1}, 1.2345F);
        const at::Tensor output = model(input);
        EXPECT_EQ(output.scalar_type(), at::kFloat);
        EXPECT_TRUE(torch::equal(output, output.to(at::kBFloat16).to(at::kFloat)));
        EXPECT_FALSE(torch::equal(output, net(input)));
        accelerator.backward(output.sum());
        EXPECT_EQ(net->weight.grad().scalar_type(), at::kFloat);
        {
          const auto scope = accelerator.autocast();
          EXPECT_EQ(net(input).scalar_type(), at::kBFloat16);
        }
        EXPECT_EQ(net(input).scalar_type(), at::kFloat);
      },
      options);
}

TEST(Accelerator, GoesOnInTheMiddleOfAnEpoch) {
  on_ranks(2, [](Accelerator& accelerator) {
    const auto numbers_of = [](Batch& batch) { return batch["number"].clone(); };
    auto [loader] = accelerator.prepare(loader_of(20, 3, true));
    std::vector<at::Tensor> first;
    std::vector<at::Tensor> second;
    for (Batch& batch : loader) first.push_back(numbers_of(batch));
    for (Batch& batch : loader) second.push_back(numbers_of(batch));
    EXPECT_FALSE(torch::equal(first[0], second[0]));  // each epoch has another order
    auto [again] = accelerator.prepare(loader_of(20, 3, true));
    again.set_epoch(1);
    again.skip_first_batches(2);
    std::size_t position = 2;
    for (Batch& batch : again) EXPECT_TRUE(torch::equal(numbers_of(batch), second.at(position++)));
    EXPECT_EQ(position, second.size());
  });
}

TEST(Accelerator, RefusesWhatItCannotDo) {
  run_ranks_as_threads(2, [](const Membership& membership) {
    AcceleratorOptions options;
    options.ddp.process_group = make_communicator("thread", membership);
    Accelerator accelerator(options);
    options.mixed_precision = "fp16";
    if (!kHasFp16OnCpu) {
      EXPECT_NE(accelerator_error([&] { Accelerator refused(options); }).find("requires a GPU"), std::string::npos);
    }
    options.mixed_precision = "fp12";
    EXPECT_NE(accelerator_error([&] { Accelerator refused(options); }).find("no, fp16 or bf16"), std::string::npos);
    options.mixed_precision = "no";
    options.gradient_accumulation_steps = -1;
    EXPECT_NE(accelerator_error([&] { Accelerator refused(options); }).find("steps is -1"), std::string::npos);
    options.gradient_accumulation_steps = 1;
    options.split_batches = true;
    Accelerator splitting(options);
    EXPECT_NE(accelerator_error([&] { splitting.prepare(loader_of(9, 3)); }).find("cannot be split among 2"),
              std::string::npos);
    const auto rows = numbered_rows(8);
    DistributedSamplerOptions share;
    share.num_replicas = 2;
    share.rank = 0;
    const DataLoader sharded(rows, {}, std::make_shared<DistributedSampler>(8, share));
    EXPECT_NE(accelerator_error([&] { accelerator.prepare(sharded); }).find("sampler of its own"), std::string::npos);
    EXPECT_NE(accelerator_error([&] { accelerator.reduce(torch::ones(1), "median"); }).find("median"),
              std::string::npos);
  });
}

}  // namespace
}  // namespace lockstep
