// Tests loaders of torch::data in Accelerator::prepare.
#include "lockstep/detail/train/prepared_torch_loader.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/data/torch_data_sampler.h"
#include "tests/support/ranks.h"
#include "tests/train/numbered_rows.h"

namespace lockstep {
namespace {

using Batches = std::vector<std::vector<std::int64_t>>;

std::vector<std::int64_t> sample_numbers(const torch::data::Example<>& batch) {
  const at::Tensor numbers = batch.target.view(-1).to(at::kLong);
  return {numbers.data_ptr<std::int64_t>(), numbers.data_ptr<std::int64_t>() + numbers.numel()};
}
std::vector<std::int64_t> sample_numbers(const std::vector<torch::data::Example<>>& batch) {
  std::vector<std::int64_t> numbers;
  for (const auto& sample : batch) numbers.push_back(sample.target.item<std::int64_t>());
  return numbers;
}

struct DealtCase {
  const char* name;
  std::int64_t samples, batch_size;
  int ranks;
  bool split, even, drop_last;
  std::vector<Batches> want;  // by rank: the batches of accelerate 1.15.0's BatchSamplerShard
  friend std::ostream& operator<<(std::ostream& out, const DealtCase& c) { return out << c.name; }
};
class DealtTorchLoader : public ::testing::TestWithParam<DealtCase> {};

TEST_P(DealtTorchLoader, GivesEachRankWhatAccelerateGives) {
  const DealtCase& c = GetParam();
  run_ranks_as_threads(c.ranks, [&](const Membership& membership) {
    AcceleratorOptions options = options_on("thread", membership);
    options.split_batches = c.split;
    options.even_batches = c.even;
    Accelerator accelerator(options);
    using torch::data::samplers::SequentialSampler;
    for (const std::size_t workers : {0U, 2U}) {
      const auto read_by = torch_options(c.batch_size, workers, c.drop_last);
      auto stacked = torch::data::make_data_loader<SequentialSampler>(stacked_rows(c.samples), read_by);
      auto plain = torch::data::make_data_loader<SequentialSampler>(NumberedRows(c.samples), read_by);
      auto [of_tensors, of_samples] = accelerator.prepare(*stacked, std::move(plain));
      for (int pass = 0; pass < 2; ++pass) {
        Batches tensors, samples;
        for (auto& batch : of_tensors) tensors.push_back(sample_numbers(batch));
        for (auto& batch : of_samples) samples.push_back(sample_numbers(batch));
        const auto rank = static_cast<std::size_t>(membership.rank);
        EXPECT_EQ(tensors, c.want[rank]) << "rank " << rank << ", workers " << workers;
        EXPECT_EQ(samples, c.want[rank]) << "rank " << rank << ", workers " << workers;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Table, DealtTorchLoader,
    ::testing::Values(
        DealtCase{"one_rank", 3, 2, 1, false, true, false, {{{0, 1}, {2}}}},
        DealtCase{
            "full_rounds", 12, 2, 3, false, true, false, {{{0, 1}, {6, 7}}, {{2, 3}, {8, 9}}, {{4, 5}, {10, 11}}}},
        DealtCase{
            "a_batch_short", 10, 2, 3, false, true, false, {{{0, 1}, {6, 7}}, {{2, 3}, {8, 9}}, {{4, 5}, {0, 1}}}},
        DealtCase{
            "a_sample_short", 11, 2, 2, false, true, false, {{{0, 1}, {4, 5}, {8, 9}}, {{2, 3}, {6, 7}, {10, 0}}}},
        DealtCase{"a_sample_more", 7, 2, 3, false, true, false, {{{0, 1}, {6, 0}}, {{2, 3}, {1, 2}}, {{4, 5}, {3, 4}}}},
        DealtCase{
            "fewer_samples_than_ranks_need", 3, 2, 4, false, true, false, {{{0, 1}}, {{2, 0}}, {{1, 2}}, {{0, 1}}}},
        DealtCase{"uneven", 11, 2, 3, false, false, false, {{{0, 1}, {6, 7}}, {{2, 3}, {8, 9}}, {{4, 5}, {10}}}},
        DealtCase{"dropped_round", 11, 2, 3, false, true, true, {{{0, 1}}, {{2, 3}}, {{4, 5}}}},
        DealtCase{
            "dropped_sample", 13, 2, 3, false, true, true, {{{0, 1}, {6, 7}}, {{2, 3}, {8, 9}}, {{4, 5}, {10, 11}}}},
        DealtCase{"split",
                  15,
                  6,
                  3,
                  true,
                  true,
                  false,
                  {{{0, 1}, {6, 7}, {12, 13}}, {{2, 3}, {8, 9}, {14, 0}}, {{4, 5}, {10, 11}, {1, 2}}}},
        DealtCase{"split_one_more",
                  13,
                  6,
                  3,
                  true,
                  true,
                  false,
                  {{{0, 1}, {6, 7}, {12, 0}}, {{2, 3}, {8, 9}, {1, 2}}, {{4, 5}, {10, 11}, {3, 4}}}},
        DealtCase{"split_few", 2, 6, 3, true, true, false, {{{0, 1}}, {{0, 1}}, {{0, 1}}}},
        DealtCase{"split_uneven",
                  15,
                  6,
                  3,
                  true,
                  false,
                  false,
                  {{{0, 1}, {6, 7}, {12, 13}}, {{2, 3}, {8, 9}, {14}}, {{4, 5}, {10, 11}}}},
        DealtCase{
            "split_dropped", 15, 6, 3, true, true, true, {{{0, 1}, {6, 7}}, {{2, 3}, {8, 9}}, {{4, 5}, {10, 11}}}}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(PreparedTorchLoader, LetsMetricsSeeEachSampleOnce) {
  for (const bool split : {false, true}) {
    run_ranks_as_threads(3, [&](const Membership& membership) {
      AcceleratorOptions options = options_on("thread", membership);
      options.split_batches = split;
      Accelerator accelerator(options);
      using torch::data::samplers::SequentialSampler;
      auto data = torch::data::make_data_loader<SequentialSampler>(stacked_rows(13), torch_options(split ? 6 : 2));
      auto [loader] = accelerator.prepare(*data);
      std::vector<std::int64_t> seen;
      for (auto& batch : loader) {
        const at::Tensor all = accelerator.gather_for_metrics(batch.target);
        for (std::int64_t i = 0; i < all.size(0); ++i) seen.push_back(all[i].item<std::int64_t>());
      }
      EXPECT_EQ(seen, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
    });
  }
}

TEST(PreparedTorchLoader, TakesAShareAsItIs) {
  run_ranks_as_threads(2, [](const Membership& membership) {
    Accelerator accelerator(options_on("thread", membership));
    DistributedSamplerOptions share;
    share.num_replicas = 2;
    share.rank = membership.rank;
    TorchDataSampler sampler(10, share);
    auto data = torch::data::make_data_loader(stacked_rows(10), sampler, torch_options(2));
    auto [loader] = accelerator.prepare(*data);
    for (const std::int64_t epoch : {0, 1}) {
      sampler.set_epoch(epoch);
      std::vector<std::int64_t> taken;
      for (auto& batch : loader) {
        for (const std::int64_t number : sample_numbers(batch)) taken.push_back(number);
      }
      DistributedSampler wanted(10, share);
      wanted.set_epoch(epoch);
      EXPECT_EQ(taken, wanted.indices());
    }
  });
}

TEST(PreparedTorchLoader, SkipsBatchesOnce) {
  run_ranks_as_threads(2, [](const Membership& membership) {
    Accelerator accelerator(options_on("thread", membership));
    using torch::data::samplers::SequentialSampler;
    auto data = torch::data::make_data_loader<SequentialSampler>(stacked_rows(12), torch_options(2));
    auto [loader] = accelerator.prepare(*data);
    std::vector<Batches> passes;
    for (int pass = 0; pass < 2; ++pass) {
      passes.emplace_back();
      if (pass == 0) Accelerator::skip_first_batches(loader, 2);
      for (auto& batch : loader) passes.back().push_back(sample_numbers(batch));
    }
    const std::int64_t first = 2 * membership.rank;
    EXPECT_EQ(passes[0], (Batches{{first + 8, first + 9}}));
    EXPECT_EQ(passes[1].size(), 3U);
  });
}

std::string refusal_of_a_loader(const Membership& membership, bool split,
                                const torch::data::DataLoaderOptions& read_by) {
  AcceleratorOptions options = options_on("thread", membership);
  options.split_batches = split;
  Accelerator accelerator(options);
  auto data = torch::data::make_data_loader(stacked_rows(12), read_by);
  try {
    accelerator.prepare(*data);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(PreparedTorchLoader, RefusesWhatItCannotDeal) {
  // Each with ranks of its own: a second group over one membership would meet what is left of the first.
  run_ranks_as_threads(2, [](const Membership& membership) {
    const std::string text = refusal_of_a_loader(membership, true, torch_options(3));
    EXPECT_NE(text.find("a batch of 3 cannot be split among 2 ranks"), std::string::npos) << text;
  });
  run_ranks_as_threads(2, [](const Membership& membership) {
    const std::string text = refusal_of_a_loader(membership, false, torch_options(2, 2).enforce_ordering(false));
    EXPECT_NE(text.find("enforce_ordering(false)"), std::string::npos) << text;
  });
}

}  // namespace
}  // namespace lockstep
