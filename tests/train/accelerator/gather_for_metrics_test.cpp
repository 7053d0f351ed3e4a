// What gather_for_metrics cannot cut, and must not cut in silence.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/data/tensor_dataset.h"
#include "lockstep/train/accelerator.h"
#include "tests/support/ranks.h"
#include "tests/train/numbered_rows.h"

namespace lockstep {
namespace {

DataLoader loader_of_triples(std::int64_t samples, std::int64_t batch_size, bool drop_last = false) {
  DataLoaderOptions options;
  options.batch_size = batch_size;
  options.drop_last = drop_last;
  const at::Tensor triples = torch::arange(samples, torch::kDouble).unsqueeze(1).repeat({1, 3});
  return DataLoader(std::make_shared<TensorDataset>(Batch{{"x", triples}}), options);
}

using OnMetricRank = std::function<void(Accelerator&)>;

void on_metric_ranks(int ranks, const OnMetricRank& body, const AcceleratorOptions& with = {}) {
  run_ranks_as_threads(ranks, [&](const Membership& membership) {
    AcceleratorOptions options = with;
    options.ddp = options_on("thread", membership).ddp;
    Accelerator accelerator(options);
    body(accelerator);
  });
}

// What each rank is refused with.
std::vector<std::string> metric_refusals(int ranks, const OnMetricRank& body) {
  std::vector<std::string> texts(static_cast<std::size_t>(ranks), "nothing");
  on_metric_ranks(ranks, [&](Accelerator& accelerator) {
    try {
      body(accelerator);
    } catch (const Error& error) {
      texts[static_cast<std::size_t>(accelerator.process_index())] = error.what();
    }
  });
  return texts;
}

void expect_refusal(const std::vector<std::string>& texts, const std::vector<std::string>& parts) {
  for (const std::string& text : texts) {
    for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
}

TEST(GatherForMetrics, RefusesATensorWhoseFirstDimensionIsNotTheBatch) {
  const auto refusals = [](int ranks, const std::function<at::Tensor(const at::Tensor&)>& of_batch) {
    return metric_refusals(ranks, [&](Accelerator& accelerator) {
      auto [loader] = accelerator.prepare(loader_of_triples(10, 4));
      for (auto& batch : loader) accelerator.gather_for_metrics(of_batch(batch["x"]));
    });
  };
  const auto flat = [](const at::Tensor& x) { return x.reshape({-1}); };
  for (const int ranks : {1, 2}) {
    expect_refusal(refusals(ranks, flat),
                   {"12 elements along dimension 0 on rank 0", "has 4 samples", "view({4, -1})"});
  }
  const auto half = [](const at::Tensor& x) { return x.slice(0, 0, 2); };
  expect_refusal(refusals(2, half), {"2 elements", "has 4 samples", "use gather"});
  const auto mean = [](const at::Tensor& x) { return x.mean().reshape({1}); };
  expect_refusal(refusals(2, mean), {"1 element along", "has 4 samples"});
}

TEST(GatherForMetrics, RefusesFlattenedBatchesOfTorchLoaders) {
  expect_refusal(metric_refusals(2,
                                 [](Accelerator& accelerator) {
                                   auto data = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
                                       stacked_rows(10), torch_options(4));
                                   auto [loader] = accelerator.prepare(*data);
                                   for (auto& batch : loader) {
                                     accelerator.gather_for_metrics(batch.target.repeat({1, 3}).view(-1));
                                   }
                                 }),
                 {"12 elements along dimension 0 on rank 0", "has 4 samples"});
}

// If only one rank gives another size, no rank waits for it.
TEST(GatherForMetrics, RefusesOnAllRanksWhatOneRankGives) {
  expect_refusal(metric_refusals(3,
                                 [](Accelerator& accelerator) {
                                   auto [loader] = accelerator.prepare(loader_of_triples(12, 2));
                                   for (auto& batch : loader) {
                                     const bool is_odd = accelerator.process_index() == 1;
                                     accelerator.gather_for_metrics(batch["x"].slice(0, 0, is_odd ? 1 : 2));
                                   }
                                 }),
                 {"1 element along dimension 0 on rank 1", "has 2 samples"});
}

TEST(GatherForMetrics, IsNotCutByALoopAroundTheOneThatHasEnded) {
  expect_refusal(metric_refusals(2,
                                 [](Accelerator& accelerator) {
                                   auto [inner, outer] =
                                       accelerator.prepare(loader_of_triples(10, 4), loader_of_triples(40, 4));
                                   for (auto& around : outer) {
                                     std::vector<at::Tensor> parts{around["x"].slice(0, 0, 0)};
                                     for (auto& batch : inner) parts.push_back(batch["x"]);
                                     accelerator.gather_for_metrics(torch::cat(parts));
                                   }
                                 }),
                 {"5 elements", "has 4 samples", "after a loop inside another one"});
}

TEST(GatherForMetrics, TakesTheInnermostLoopThatRuns) {
  on_metric_ranks(2, [](Accelerator& accelerator) {
    auto [inner, outer] = accelerator.prepare(loader_of_triples(10, 3), loader_of_triples(15, 4));
    std::vector<std::int64_t> of_inner, of_outer;
    for (auto& around : outer) {
      for (auto& batch : inner) of_inner.push_back(accelerator.gather_for_metrics(batch["x"]).size(0));
      of_outer.push_back(accelerator.gather_for_metrics(around["x"]).size(0));
      // A loop that breaks is over, too.
      for (auto& batch : inner) {
        of_inner.push_back(accelerator.gather_for_metrics(batch["x"]).size(0));
        break;
      }
      of_outer.push_back(accelerator.gather_for_metrics(around["x"]).size(0));
    }
    EXPECT_EQ(of_inner, (std::vector<std::int64_t>{6, 4, 6, 6, 4, 6}));
    EXPECT_EQ(of_outer, (std::vector<std::int64_t>{8, 8, 7, 7}));
  });
}

TEST(GatherForMetrics, KnowsTheSamplesOfBatchesBehindSkippedOnes) {
  on_metric_ranks(2, [](Accelerator& accelerator) {
    auto [loader] = accelerator.prepare(loader_of_triples(11, 4));
    Accelerator::skip_first_batches(loader, 1);
    std::vector<std::int64_t> sizes;
    for (auto& batch : loader) sizes.push_back(accelerator.gather_for_metrics(batch["x"]).size(0));
    EXPECT_EQ(sizes, (std::vector<std::int64_t>{3}));
    // What an iterator of an earlier pass does when it goes does not end this one.
    auto first = loader.begin();
    first = loader.begin();
    EXPECT_EQ(accelerator.gather_for_metrics((*first)["x"]).size(0), 8);
  });
}

// The log of two ranks that gather twice, after a loop over samples that ranks have repeated, or not.
std::string log_after_loop(std::int64_t samples, bool even = true, bool drop_last = false, std::int64_t cut = 0) {
  AcceleratorOptions options;
  options.even_batches = even;
  ::testing::internal::CaptureStderr();
  on_metric_ranks(
      2,
      [&](Accelerator& accelerator) {
        auto [loader] = accelerator.prepare(loader_of_triples(samples, 4, drop_last));
        std::vector<at::Tensor> parts;
        for (auto& batch : loader) parts.push_back(batch["x"]);
        const at::Tensor all = torch::cat(parts).slice(0, cut);
        for (int again = 0; again < 2; ++again) accelerator.gather_for_metrics(all);
      },
      options);
  return ::testing::internal::GetCapturedStderr();
}

TEST(GatherForMetrics, AfterItsLoopWarnsOnceOfRepeatedSamples) {
  const std::string log = log_after_loop(11);
  const std::string warning = "gather_for_metrics was called after its loop";
  EXPECT_NE(log.find(warning), std::string::npos) << log;
  EXPECT_NE(log.find("(1 sample)"), std::string::npos) << log;
  EXPECT_EQ(log.find(warning), log.rfind(warning)) << log;
  EXPECT_EQ(log_after_loop(10), "");
  EXPECT_EQ(log_after_loop(11, /*even=*/false), "");
  EXPECT_EQ(log_after_loop(11, true, /*drop_last=*/true), "");
  EXPECT_EQ(log_after_loop(11, true, false, /*cut=*/5), "") << "another tensor than that of the samples";
}

TEST(GatherForMetrics, AfterALoopOverATorchLoaderWarns) {
  ::testing::internal::CaptureStderr();
  on_metric_ranks(2, [](Accelerator& accelerator) {
    auto data =
        torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(stacked_rows(13), torch_options(4));
    auto [loader] = accelerator.prepare(*data);
    std::vector<at::Tensor> parts;
    for (auto& batch : loader) parts.push_back(batch.target);
    accelerator.gather_for_metrics(torch::cat(parts));
  });
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("(3 samples)"), std::string::npos) << log;
}

}  // namespace
}  // namespace lockstep
