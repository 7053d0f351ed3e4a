#include "lockstep/data/torch_data_sampler.h"

#include <gtest/gtest.h>
#include <torch/data.h>
#include <torch/serialize.h>

#include <algorithm>
#include <numeric>
#include <sstream>

#include "lockstep/data/exact_distributed_sampler.h"
#include "tests/support/expect_error.h"

namespace lockstep {
namespace {

using SampleNumbers = std::vector<std::int64_t>;

// Samples that are their own numbers.
struct NumberedSamples : torch::data::datasets::Dataset<NumberedSamples, std::int64_t> {
  explicit NumberedSamples(std::size_t count) : count_(count) {}
  std::int64_t get(std::size_t index) override { return static_cast<std::int64_t>(index); }
  // An optional of LibTorch's or the library's, as the version has it.
  decltype(std::declval<const torch::data::datasets::TensorDataset&>().size()) size() const override { return count_; }

 private:
  std::size_t count_;
};

auto torch_loader(const TorchDataSampler& sampler, std::size_t batch_size, std::size_t workers) {
  const auto options = torch::data::DataLoaderOptions().batch_size(batch_size).workers(workers);
  return torch::data::make_data_loader(NumberedSamples(static_cast<std::size_t>(sampler.sampler().dataset_size())),
                                       sampler, options);
}

template <typename Loader>
SampleNumbers one_pass(Loader& loader) {
  SampleNumbers taken;
  for (const auto& batch : loader) taken.insert(taken.end(), batch.begin(), batch.end());
  return taken;
}

DistributedSamplerOptions torch_share(std::int64_t rank, std::int64_t replicas, bool drop_last = false,
                                      std::uint64_t seed = 0) {
  DistributedSamplerOptions share;
  share.num_replicas = replicas;
  share.rank = rank;
  share.drop_last = drop_last;
  share.seed = seed;
  return share;
}

TEST(TorchDataSampler, ReachesItsCopyInsideALoader) {
  for (const std::size_t workers : {0U, 2U}) {
    // The output of PyTorch 1.13's DistributedSampler.
    TorchDataSampler sampler(10, torch_share(0, 4));
    const auto loader = torch_loader(sampler, 2, workers);
    sampler.set_epoch(1);
    EXPECT_EQ(one_pass(*loader), (SampleNumbers{5, 0, 7})) << workers;
    TorchDataSampler seeded(10, torch_share(2, 3, false, 42));
    const auto seeded_loader = torch_loader(seeded, 3, workers);
    one_pass(*seeded_loader);  // epoch 0
    seeded.set_epoch(9);
    EXPECT_EQ(one_pass(*seeded_loader), (SampleNumbers{7, 9, 8, 1})) << workers;
  }
}

TEST(TorchDataSampler, SharesEachEpochAmongTheRanks) {
  for (const std::size_t workers : {0U, 2U}) {
    std::vector<SampleNumbers> epochs;
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      SampleNumbers all;
      for (std::int64_t rank = 0; rank < 3; ++rank) {
        TorchDataSampler sampler(31, torch_share(rank, 3, /*drop_last=*/true));
        const auto loader = torch_loader(sampler, 4, workers);
        sampler.set_epoch(epoch);
        const SampleNumbers mine = one_pass(*loader);
        EXPECT_EQ(mine.size(), 10U);
        all.insert(all.end(), mine.begin(), mine.end());
      }
      epochs.push_back(all);
      std::sort(all.begin(), all.end());
      EXPECT_EQ(std::unique(all.begin(), all.end()) - all.begin(), 30) << "a sample on two ranks";
    }
    EXPECT_NE(epochs[0], epochs[1]);
    EXPECT_NE(epochs[1], epochs[2]);
  }
}

TEST(TorchDataSampler, TakesTheProjectsOtherSamplers) {
  SampleNumbers all;
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    ExactDistributedSamplerOptions share;
    share.num_replicas = 3;
    share.rank = rank;
    const TorchDataSampler sampler(std::make_shared<ExactDistributedSampler>(8, share));
    const SampleNumbers mine = one_pass(*torch_loader(sampler, 2, 0));
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (SampleNumbers{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(TorchDataSampler, ChangesNothingInALoopThatRuns) {
  TorchDataSampler sampler(12, torch_share(1, 2));
  sampler.set_epoch(4);
  const SampleNumbers fourth = one_pass(*torch_loader(sampler, 2, 0));
  sampler.set_epoch(4);
  const auto loader = torch_loader(sampler, 2, 0);
  SampleNumbers taken;
  for (const auto& batch : *loader) {
    taken.insert(taken.end(), batch.begin(), batch.end());
    sampler.set_epoch(5);
  }
  EXPECT_EQ(taken, fourth);
  EXPECT_NE(one_pass(*loader), fourth);
}

// Two workers read up to four batches ahead; the position is still that of the loop.
TEST(TorchDataSampler, GoesOnWhereTheLoopWas) {
  TorchDataSampler whole(40, torch_share(0, 2));
  whole.set_epoch(2);
  const SampleNumbers wanted = one_pass(*torch_loader(whole, 3, 0));
  TorchDataSampler sampler(40, torch_share(0, 2));
  sampler.set_epoch(2);
  SampleNumbers taken;
  {
    const auto loader = torch_loader(sampler, 3, 2);
    for (const auto& batch : *loader) {
      taken.insert(taken.end(), batch.begin(), batch.end());
      if (taken.size() == 9) break;
    }
  }
  const SamplerState state = sampler.state_after(static_cast<std::int64_t>(taken.size()));
  TorchDataSampler other(40, torch_share(0, 2));
  other.load_state(state);
  other.set_epoch(state.epoch);
  const SampleNumbers rest = one_pass(*torch_loader(other, 3, 2));
  taken.insert(taken.end(), rest.begin(), rest.end());
  EXPECT_EQ(taken, wanted);
}

TEST(TorchDataSampler, IsSavedAsLibTorchsSamplersAre) {
  TorchDataSampler sampler(9, torch_share(0, 2, false, 5));
  sampler.set_epoch(3);
  sampler.reset();
  const SampleNumbers order = sampler.sampler().indices();
  sampler.next(2);
  torch::serialize::OutputArchive saved;
  sampler.save(saved);
  std::stringstream file;
  saved.save_to(file);
  torch::serialize::InputArchive archive;
  archive.load_from(file);
  TorchDataSampler other(9, torch_share(0, 2));
  other.load(archive);
  EXPECT_EQ(one_pass(*torch_loader(other, 2, 0)), SampleNumbers(order.begin() + 2, order.end()));
}

TEST(TorchDataSampler, RefusesWhatItIsNotFor) {
  TorchDataSampler sampler(9, torch_share(0, 2));
  expect_error("reset(10) was called on a sampler for 9", [&] { sampler.reset(10); });
  expect_error("no position 6: an epoch has 5 samples", [&] { sampler.state_after(6); });
  expect_error("the sampler is null", [] { TorchDataSampler(nullptr); });
  torch::serialize::OutputArchive saved;
  saved.write("weight", torch::zeros({2}));
  std::stringstream file;
  saved.save_to(file);
  torch::serialize::InputArchive archive;
  archive.load_from(file);
  expect_error("has no position for this sampler", [&] { sampler.load(archive); });
}

}  // namespace
}  // namespace lockstep
