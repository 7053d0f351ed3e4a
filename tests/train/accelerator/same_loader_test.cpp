// Ranks whose loaders read different data, or deal it into different batches.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/data/data_digest.h"
#include "lockstep/data/tensor_dataset.h"
#include "lockstep/parallel/same_data.h"
#include "lockstep/train/accelerator.h"
#include "tests/support/ranks.h"
#include "tests/train/numbered_rows.h"

namespace lockstep {
namespace {

constexpr std::int64_t kSamplesOfLoader = 130;  // more than a digest has parts

Batch loader_rows(std::int64_t count = kSamplesOfLoader) {
  const at::Tensor numbers = torch::arange(count, torch::kFloat);
  return {{"x", (numbers / 10).unsqueeze(1)}, {"labels", numbers.to(torch::kLong) % 3}};
}

// A program's own type, which writes no digests, and draws numbers for each sample that it throws away.
class OwnLoaderRows : public Dataset {
 public:
  explicit OwnLoaderRows(Batch rows) : rows_(std::move(rows)) {}
  std::int64_t size() const override { return rows_.size(); }

 private:
  Example do_get(std::int64_t index) const override {
    torch::rand({3});
    return rows_.get(index);
  }
  TensorDataset rows_;
};

// What each of three ranks is refused with, if rank 1 calls `other` and the others call `usual`.
using Prepares = std::function<void(Accelerator&)>;
std::vector<std::string> loader_refusals(const Prepares& usual, const Prepares& other) {
  constexpr int kRanks = 3;
  std::vector<std::string> texts(kRanks);
  run_ranks_as_threads(kRanks, [&](const Membership& membership) {
    Accelerator accelerator(options_on("thread", membership));
    try {
      membership.rank == 1 ? other(accelerator) : usual(accelerator);
    } catch (const UsageError& error) {
      texts[static_cast<std::size_t>(membership.rank)] = error.what();
    }
  });
  return texts;
}

void expect_in_all(const std::vector<std::string>& texts, const std::string& part) {
  for (const std::string& text : texts) EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
}

struct LoaderCase {
  const char* name;
  std::function<void(std::shared_ptr<const Dataset>& data, DataLoaderOptions& options)> change;  // of rank 1
  std::string want;
  friend std::ostream& operator<<(std::ostream& out, const LoaderCase& each) { return out << each.name; }
};

const std::vector<LoaderCase> kOtherLoaders{
    {"order",
     [](auto& data, auto&) {
       Batch rows = loader_rows();
       at::Tensor order = torch::arange(kSamplesOfLoader);
       order[17] = 90;
       order[90] = 17;
       for (auto& [name, tensor] : rows) tensor = tensor.index_select(0, order);
       data = std::make_shared<TensorDataset>(rows);
     },
     "rank 1 has the samples of rank 0 in another order; the first that differs is sample 17, counted from 0"},
    {"count", [](auto& data, auto&) { data = std::make_shared<TensorDataset>(loader_rows(kSamplesOfLoader + 2)); },
     "the prepared loader 1, counted from 0: rank 1 has 132 samples, and rank 0 130 samples"},
    {"label",
     [](auto& data, auto&) {
       Batch rows = loader_rows();
       rows.at("labels")[129] += 1;
       data = std::make_shared<TensorDataset>(rows);
     },
     "rank 1 has other samples than rank 0; the first that differs is sample 129"},
    {"batch", [](auto&, auto& options) { options.batch_size = 3; }, "batch_size is 3 for rank 1, and 2 for rank 0"},
    {"seed", [](auto&, auto& options) { options.seed = 8; },
     R"(order is "shuffled by seed 8" for rank 1, and "shuffled by seed 7" for rank 0)"},
    {"shuffle", [](auto&, auto& options) { options.shuffle = false; },
     R"(order is "as it is" for rank 1, and "shuffled by seed 7" for rank 0)"},
};

class OtherLoader : public ::testing::TestWithParam<LoaderCase> {};

TEST_P(OtherLoader, IsRefusedOnAllRanksWithTheFirstDifference) {
  const auto prepares = [](bool changes) {
    return [changes](Accelerator& accelerator) {
      std::shared_ptr<const Dataset> data = std::make_shared<TensorDataset>(loader_rows());
      DataLoaderOptions options;
      options.batch_size = 2;
      options.shuffle = true;
      options.seed = 7;
      const DataLoader first(data, options);
      if (changes) GetParam().change(data, options);
      accelerator.prepare(first, DataLoader(data, options));
    };
  };
  const auto texts = loader_refusals(prepares(false), prepares(true));
  expect_in_all(texts, GetParam().want);
  expect_in_all(texts, "the ranks have not read the same data");
}
INSTANTIATE_TEST_SUITE_P(Table, OtherLoader, ::testing::ValuesIn(kOtherLoaders),
                         [](const auto& test) { return test.param.name; });

TEST(SameLoader, AProgramsOwnDatasetIsLookedAt) {
  const auto prepares = [](std::int64_t shift) {
    return [shift](Accelerator& accelerator) {
      Batch rows = loader_rows();
      for (auto& [name, tensor] : rows) tensor = tensor.roll(shift, 0);
      accelerator.prepare(DataLoader(std::make_shared<OwnLoaderRows>(rows)));
    };
  };
  for (const std::string& text : loader_refusals(prepares(0), prepares(0))) EXPECT_EQ(text, "");
  expect_in_all(loader_refusals(prepares(0), prepares(1)), "rank 1 has other samples than rank 0");
}

// Else a training's random numbers would depend on how many samples were looked at.
TEST(SameLoader, WhoLooksAtSamplesLeavesTheGeneratorAsItWas) {
  torch::manual_seed(5);
  const at::Tensor want = torch::rand({4});
  torch::manual_seed(5);
  const OwnLoaderRows rows(loader_rows());
  EXPECT_FALSE(digest_of(&rows).parts.empty());
  EXPECT_TRUE(torch::rand({4}).equal(want));
}

TEST(SameLoader, ALoaderOfTorchDataWithoutWorkersIsLookedAt) {
  using torch::data::samplers::SequentialSampler;
  const auto prepares = [](std::int64_t samples, std::size_t workers) {
    return [=](Accelerator& accelerator) {
      auto loader = torch::data::make_data_loader<SequentialSampler>(stacked_rows(samples), torch_options(2, workers));
      accelerator.prepare(*loader);
    };
  };
  expect_in_all(loader_refusals(prepares(12, 0), prepares(13, 0)),
                "the prepared loader of torch::data: rank 1 has 13 samples, and rank 0 12 samples");
  for (const std::string& text : loader_refusals(prepares(12, 0), prepares(12, 0))) EXPECT_EQ(text, "");
  for (const std::string& text : loader_refusals(prepares(12, 1), prepares(12, 1))) EXPECT_EQ(text, "");
  const auto other_rows = [](Accelerator& accelerator) {
    auto rows = torch::data::datasets::TensorDataset(std::vector<at::Tensor>{torch::ones({12, 1})});
    auto loader = torch::data::make_data_loader<SequentialSampler>(std::move(rows), torch_options(2));
    accelerator.prepare(*loader);
  };
  const auto rows = [](Accelerator& accelerator) {
    auto some = torch::data::datasets::TensorDataset(std::vector<at::Tensor>{torch::zeros({12, 1})});
    auto loader = torch::data::make_data_loader<SequentialSampler>(std::move(some), torch_options(2));
    accelerator.prepare(*loader);
  };
  expect_in_all(loader_refusals(rows, other_rows), "rank 1 has other samples than rank 0; the first that differs is");
}

TEST(SameLoader, ALoopOfTheProgramsOwnComparesByACall) {
  const auto compares = [](std::int64_t count) {
    return [count](Accelerator& accelerator) {
      require_same_data(accelerator.process_group(), std::make_shared<TensorDataset>(loader_rows(count)), "rows.csv");
    };
  };
  const auto texts = loader_refusals(compares(9), compares(8));
  expect_in_all(texts, "data: rank 1 has 8 samples, and rank 0 9 samples");
  expect_in_all(texts, "rows.csv of rank 1, rows.csv of rank 0");
  const auto none = [](Accelerator& accelerator) { require_same_data(accelerator.process_group(), nullptr); };
  expect_in_all(loader_refusals(compares(9), none), "rank 1 has none, and rank 0 9 samples");
}

}  // namespace
}  // namespace lockstep
