#include "lockstep/data/data_loader.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>

#include "lockstep/data/batch_prefetcher.h"
#include "lockstep/data/distributed_sampler.h"
#include "lockstep/data/exact_distributed_sampler.h"
#include "lockstep/data/random_sampler.h"
#include "lockstep/data/tensor_dataset.h"
#include "tests/support/expect_error.h"

namespace lockstep {
namespace {

using Indices = std::vector<std::int64_t>;
using Batches = std::vector<Indices>;

// Far more than any step here takes, so that a hang becomes a failure.
constexpr std::chrono::seconds kLoaderPatience{60};

// Sample i is "labels" = i. Tests change how it is read.
class TestDataset : public Dataset {
 public:
  explicit TestDataset(
      std::int64_t size, std::function<void(std::int64_t)> on_get = [](std::int64_t) {})
      : size_(size), on_get_(std::move(on_get)) {}
  std::int64_t size() const override { return size_; }

 private:
  Example do_get(std::int64_t index) const override {
    on_get_(index);
    return {{"labels", at::scalar_tensor(index, at::kLong)}};
  }
  std::int64_t size_;
  std::function<void(std::int64_t)> on_get_;
};

std::shared_ptr<Dataset> dataset_of(std::int64_t size) { return std::make_shared<TestDataset>(size); }

DataLoaderOptions options_of(std::int64_t batch_size, int num_workers = 0, bool drop_last = false) {
  DataLoaderOptions options;
  options.batch_size = batch_size;
  options.num_workers = num_workers;
  options.drop_last = drop_last;
  return options;
}

Indices label_indices(const Batch& batch) {
  const at::Tensor& labels = batch.at("labels");
  return {labels.data_ptr<std::int64_t>(), labels.data_ptr<std::int64_t>() + labels.numel()};
}

Batches read_all(DataLoader& loader) {
  Batches batches;
  for (const Batch& batch : loader) batches.push_back(label_indices(batch));
  return batches;
}

TEST(DataLoader, ReadsInTheDatasetsOrderWithoutASampler) {
  DataLoader loader(dataset_of(5), options_of(2));
  EXPECT_EQ(loader.size(), 3);
  EXPECT_EQ(read_all(loader), (Batches{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(read_all(loader), (Batches{{0, 1}, {2, 3}, {4}}));
}

TEST(DataLoader, DropsTheSmallerLastBatch) {
  DataLoader loader(dataset_of(5), options_of(2, 0, true));
  EXPECT_EQ(loader.size(), 2);
  EXPECT_EQ(read_all(loader), (Batches{{0, 1}, {2, 3}}));
  DataLoader even(dataset_of(4), options_of(2, 0, true));
  EXPECT_EQ(read_all(even), (Batches{{0, 1}, {2, 3}}));
}

TEST(DataLoader, ShufflesEachPassAnew) {
  DataLoaderOptions options = options_of(12);
  options.shuffle = true;
  options.seed = 3;
  DataLoader loader(dataset_of(12), options);
  // torch.randperm(12) with seed 3, then with seed 4
  EXPECT_EQ(read_all(loader), (Batches{{10, 9, 1, 6, 4, 11, 3, 7, 2, 0, 8, 5}}));
  EXPECT_EQ(read_all(loader), (Batches{RandomSampler(12, 4).indices()}));
}

TEST(DataLoader, AnEmptyShareIsAnEpochWithoutBatches) {
  const auto sampler = std::make_shared<ExactDistributedSampler>(2, ExactDistributedSamplerOptions{4, 3});
  DataLoader loader(dataset_of(2), options_of(2, 1), sampler);
  EXPECT_EQ(loader.size(), 0);
  EXPECT_EQ(read_all(loader), Batches{});
}

TEST(DataLoader, PadsWhereTheWorldIsLargerThanTheDataset) {
  const auto sampler = std::make_shared<DistributedSampler>(2, DistributedSamplerOptions{5, 4, true, 7});
  sampler->set_epoch(3);
  DataLoader loader(dataset_of(2), options_of(2), sampler);
  EXPECT_EQ(read_all(loader), (Batches{{1}}));
}

class DataLoaderWorkers : public ::testing::TestWithParam<std::tuple<int, std::int64_t, bool>> {};

TEST_P(DataLoaderWorkers, ChangeNothingInWhatComes) {
  const auto [num_workers, batch_size, drop_last] = GetParam();
  const auto read = [&, size = batch_size, drop = drop_last](int workers) {
    const auto sampler = std::make_shared<DistributedSampler>(53, DistributedSamplerOptions{2, 1});
    DataLoader loader(dataset_of(53), options_of(size, workers, drop), sampler);
    Batches batches;
    for (int epoch = 0; epoch < 3; ++epoch) {
      sampler->set_epoch(epoch);
      for (const Indices& batch : read_all(loader)) batches.push_back(batch);
    }
    EXPECT_EQ(static_cast<std::int64_t>(batches.size()), 3 * loader.size());
    return batches;
  };
  EXPECT_EQ(read(num_workers), read(0));
}

// Interrupts after every number of batches: the rest must equal the rest of an uninterrupted run.
TEST_P(DataLoaderWorkers, GoOnFromEveryPosition) {
  const auto [num_workers, batch_size, drop_last] = GetParam();
  const auto make = [&, workers = num_workers, size = batch_size, drop = drop_last] {
    return DataLoader(dataset_of(17), options_of(size, workers, drop), std::make_shared<RandomSampler>(17, 5));
  };
  DataLoader whole = make();
  const Batches first = read_all(whole);
  const Batches second = read_all(whole);
  for (std::size_t stop = 0; stop <= first.size(); ++stop) {
    DataLoader interrupted = make();
    Batches got;
    if (stop > 0) {
      for (const Batch& batch : interrupted) {
        got.push_back(label_indices(batch));
        if (got.size() == stop) break;
      }
    }
    DataLoader resumed = make();
    resumed.load_state(interrupted.state());
    for (const Indices& batch : read_all(resumed)) got.push_back(batch);
    EXPECT_EQ(got, first) << "stopped after " << stop << " batches";
    EXPECT_EQ(read_all(resumed), second) << "the epoch after one that was resumed at batch " << stop;
  }
}

INSTANTIATE_TEST_SUITE_P(All, DataLoaderWorkers,
                         ::testing::Combine(::testing::Values(0, 1, 2, 5), ::testing::Values(1, 4, 100),
                                            ::testing::Bool()));

TEST(DataLoader, TheStateInTheLoopIsAfterTheBatchInHand) {
  DataLoader loader(dataset_of(10), options_of(4, 2));
  Indices positions;
  for (const Batch& batch : loader) {
    EXPECT_EQ(batch_size(batch), batch.at("labels").size(0));
    positions.push_back(loader.state().position);
  }
  EXPECT_EQ(positions, (Indices{4, 8, 10}));
}

TEST(DataLoader, ANewLoopStartsAtTheFirstSample) {
  for (const int workers : {0, 2}) {
    DataLoader loader(dataset_of(10), options_of(2, workers));
    for (const Batch& batch : loader) {
      if (label_indices(batch)[0] == 4) break;
    }
    EXPECT_EQ(read_all(loader), (Batches{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}}));
  }
}

TEST(DataLoader, AnOlderIteratorEndsWhenANewLoopStarts) {
  DataLoader loader(dataset_of(10), options_of(2));
  auto old = loader.begin();
  EXPECT_EQ(read_all(loader).size(), 5U);
  ++old;
  EXPECT_TRUE(old == loader.end());
}

TEST(DataLoader, AMovedLoaderGoesOn) {
  DataLoader loader(dataset_of(6), options_of(2, 1));
  auto at = loader.begin();
  DataLoader moved = std::move(loader);
  ++at;
  EXPECT_EQ(label_indices(*at), (Indices{2, 3}));
  EXPECT_EQ(moved.state().position, 4);
}

TEST(DataLoader, KeepsTheOrderWhenALaterBatchIsReadyFirst) {
  // Sample 0 is ready only after another worker has read sample 1.
  std::mutex mutex;
  std::condition_variable changed;
  bool later_was_read = false;
  const auto dataset = std::make_shared<TestDataset>(4, [&](std::int64_t index) {
    std::unique_lock lock(mutex);
    if (index == 1) later_was_read = true;
    changed.notify_all();
    if (index == 0) {
      EXPECT_TRUE(changed.wait_for(lock, kLoaderPatience, [&] { return later_was_read; }));
    }
  });
  DataLoader loader(dataset, options_of(1, 2));
  EXPECT_EQ(read_all(loader), (Batches{{0}, {1}, {2}, {3}}));
}

TEST(DataLoader, ReadsNoFurtherAheadThanItMay) {
  std::atomic<int> read{0};
  const auto dataset = std::make_shared<TestDataset>(100, [&](std::int64_t) { ++read; });
  DataLoaderOptions options = options_of(1, 2);
  options.prefetch_factor = 3;
  DataLoader loader(dataset, options);
  int taken = 0;
  for (auto at = loader.begin(); at != loader.end(); ++at) {
    ++taken;
    // Checked at every batch, whenever the workers run: at most 2 workers x 3 batches were requested.
    EXPECT_LE(read.load(), taken - 1 + 2 * 3);
  }
  EXPECT_EQ(taken, 100);
}

TEST(DataLoader, UsesTheCollateFunction) {
  for (const int workers : {0, 2}) {
    DataLoaderOptions options = options_of(3, workers);
    options.collate = [](std::vector<Example> examples) {
      Batch batch = stack_examples(examples);
      batch["count"] = at::full({static_cast<std::int64_t>(examples.size())}, 7);
      return batch;
    };
    DataLoader loader(dataset_of(4), options);
    int batches = 0;
    for (const Batch& batch : loader) {
      EXPECT_EQ(batch.at("count").numel(), batch.at("labels").numel());
      ++batches;
    }
    EXPECT_EQ(batches, 2);
  }
}

class DataLoaderErrors : public ::testing::TestWithParam<int> {};

TEST_P(DataLoaderErrors, ReachTheLoopInTheirTurnWithFileLineAndBatch) {
  bool broken = true;
  const auto dataset = std::make_shared<TestDataset>(9, [&](std::int64_t index) {
    if (broken && index == 5) throw Error("\"x\" is not a number", "numbers.csv:7:3", "correct the value");
  });
  DataLoader loader(dataset, options_of(2, GetParam()));
  Batches got;
  try {
    for (const Batch& batch : loader) got.push_back(label_indices(batch));
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.happened(), "\"x\" is not a number");
    EXPECT_EQ(error.where(), "numbers.csv:7:3, batch of samples 4, 5");
    EXPECT_EQ(error.fix(), "correct the value");
  }
  EXPECT_EQ(got, (Batches{{0, 1}, {2, 3}}));
  EXPECT_EQ(loader.state().position, 4);
  broken = false;
  EXPECT_EQ(read_all(loader), (Batches{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8}})) << "a new loop starts from the beginning";
}

TEST_P(DataLoaderErrors, OfOtherKindsBecomeErrors) {
  const auto dataset = std::make_shared<TestDataset>(9, [](std::int64_t index) {
    if (index == 3) throw std::out_of_range("a bug of the user's");
  });
  DataLoader loader(dataset, options_of(1, GetParam()));
  expect_error("a bug of the user's\n  where: DataLoader, batch of samples 3", [&] { read_all(loader); });
}

TEST_P(DataLoaderErrors, LeaveALoaderThatCanBeDestroyed) {
  const auto dataset =
      std::make_shared<TestDataset>(100, [](std::int64_t) { throw Error("always", "here", "nothing"); });
  DataLoader loader(dataset, options_of(1, GetParam()));
  expect_error("always", [&] { read_all(loader); });
}

INSTANTIATE_TEST_SUITE_P(Workers, DataLoaderErrors, ::testing::Values(0, 1, 3));

TEST(DataLoader, MayBeDestroyedInTheMiddleOfAnEpoch) {
  for (int i = 0; i < 50; ++i) {
    DataLoader loader(dataset_of(1000), options_of(1, 3));
    auto at = loader.begin();
    for (int j = 0; j < i % 4; ++j) ++at;
  }
}

// A gate at which samples wait, as in a file system that does not answer.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kLoaderPatience, [this] { return open_; }));
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

TEST(DataLoader, AWaitForAStuckWorkerEnds) {
  Gate gate;
  const auto dataset = std::make_shared<TestDataset>(4, [&](std::int64_t) { gate.pass(); });
  DataLoaderOptions options = options_of(1, 1);
  options.timeout_s = 0.02;
  DataLoader loader(dataset, options);
  EXPECT_THROW(loader.begin(), TimeoutError);
  gate.open();
}

TEST(BatchPrefetcher, LeavesAStuckWorkerBehind) {
  const auto gate = std::make_shared<Gate>();
  const std::weak_ptr<Gate> held = gate;
  {
    BatchPrefetcher prefetcher(
        1,
        [held = gate](const Indices&) {
          held->pass();
          return Batch{};
        },
        std::chrono::milliseconds(20));
    prefetcher.submit({0});
    EXPECT_THROW(prefetcher.take(Deadline::after(std::chrono::milliseconds(20))), TimeoutError);
  }
  EXPECT_GT(held.use_count(), 1) << "the worker still holds what it uses";
  gate->open();
  const Deadline deadline = Deadline::after(kLoaderPatience);
  while (held.use_count() > 1 && !deadline.passed()) std::this_thread::yield();
  EXPECT_EQ(held.use_count(), 1) << "the worker has ended";
}

TEST(DataLoader, RefusesWhatCannotBe) {
  const auto options = [](const std::function<void(DataLoaderOptions&)>& change) {
    DataLoaderOptions changed;
    change(changed);
    return changed;
  };
  const auto load = [](const DataLoaderOptions& how, std::shared_ptr<Sampler> sampler = nullptr) {
    return [how, sampler] { DataLoader(dataset_of(4), how, sampler); };
  };
  expect_error("batch_size 0 is not positive", load(options([](auto& o) { o.batch_size = 0; })));
  expect_error("num_workers -1 is negative", load(options([](auto& o) { o.num_workers = -1; })));
  expect_error("prefetch_factor 0 is not positive", load(options([](auto& o) { o.prefetch_factor = 0; })));
  expect_error("timeout_s 0 is not positive", load(options([](auto& o) { o.timeout_s = 0; })));
  expect_error("sampler option is mutually exclusive with shuffle",
               load(options([](auto& o) { o.shuffle = true; }), std::make_shared<RandomSampler>(4)));
  expect_error("the sampler is for 5 samples, but the dataset has 4", load({}, std::make_shared<RandomSampler>(5)));
  expect_error("no dataset", [] { DataLoader(nullptr); });
  expect_error("a dataset of 0 samples", [] { DataLoader(dataset_of(0)); });
  if (!at::globalContext().hasCUDA()) {
    expect_error("sees no CUDA device", load(options([](auto& o) { o.pin_memory = true; })));
  }
}

}  // namespace
}  // namespace lockstep
