#include "lockstep/train/loop/evaluation.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/comm/spawn.h"
#include "lockstep/data/tensor_dataset.h"
#include "lockstep/train/trainer.h"
#include "tests/train/same_values.h"
#include "tests/train/token_task.h"

namespace lockstep {
namespace {

// Sample i has the loss i and the output i.
struct CountingNet : torch::nn::Module {
  CountingNet() { register_parameter("unused", torch::zeros({1})); }
};

std::shared_ptr<TrainableModel> counting_model() {
  return adapt(
      std::make_shared<CountingNet>(), [](CountingNet&, const Batch& batch) { return batch.at("x"); },
      [](const at::Tensor& output, const Batch&) {
        return LossSum{output.sum(), torch::tensor(output.size(0), torch::kLong)};
      });
}

std::shared_ptr<const Dataset> counting_data(std::int64_t size) {
  const at::Tensor x = torch::arange(size, torch::kFloat);
  return std::make_shared<TensorDataset>(std::map<std::string, at::Tensor>{{"x", x}, {"labels", x.to(torch::kLong)}});
}

class EvaluationOnRanks : public ::testing::TestWithParam<std::tuple<int, std::int64_t, std::int64_t>> {};

TEST_P(EvaluationOnRanks, EverySampleCountsOnceInTheDatasetsOrder) {
  const auto [ranks, samples, batch_size] = GetParam();
  const double want = static_cast<double>(samples - 1) / 2;
  spawn_threads(ranks, [&, n = samples, size = batch_size](const std::shared_ptr<Communicator>& group) {
    EvaluationOptions options;
    options.batch_size = size;
    const EvaluationResult result = evaluate_dataset(*counting_model(), counting_data(n), options, group);
    EXPECT_DOUBLE_EQ(result.loss, want);
    EXPECT_TRUE(result.predictions.equal(torch::arange(n, torch::kFloat)));
    EXPECT_TRUE(result.label_ids.equal(torch::arange(n, torch::kLong)));
    EXPECT_EQ(result.samples, n);
  });
}

// With ten samples in batches of 4 on 2, 3 and 4 ranks, a mean of padded batches would give 3.7 in place of 4.5.
INSTANTIATE_TEST_SUITE_P(Table, EvaluationOnRanks,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4), ::testing::Values(1, 3, 10, 17),
                                            ::testing::Values(1, 4, 32)));

TEST(Evaluation, OutputsOfDifferentLengthsArePaddedToTheLongestOfAllRanks) {
  const auto dataset = std::make_shared<TokenTaskDataset>(11);
  const auto net = make_token_net();
  EvaluationOptions options;
  options.batch_size = 2;
  options.collate = pad_tokens;
  const EvaluationResult whole = evaluate_dataset(*adapt_token_net(net), dataset, options, nullptr);
  EXPECT_EQ(whole.predictions.sizes(), (std::vector<std::int64_t>{11, 7, TokenTaskDataset::kTokens}));
  std::int64_t tokens = 0;
  for (std::int64_t i = 0; i < dataset->size(); ++i) {
    const at::Tensor labels = dataset->get(i).at("labels");
    EXPECT_TRUE(whole.label_ids[i].slice(0, 0, labels.size(0)).equal(labels));
    EXPECT_TRUE(whole.label_ids[i].slice(0, labels.size(0)).eq(-100).all().item<bool>());
    tokens += labels.ne(-100).sum().item<std::int64_t>();
  }
  EXPECT_EQ(whole.label_ids.ne(-100).sum().item<std::int64_t>(), tokens);
  spawn_threads(3, [&](const std::shared_ptr<Communicator>& group) {
    const EvaluationResult shared = evaluate_dataset(*adapt_token_net(make_token_net()), dataset, options, group);
    EXPECT_TRUE(shared.label_ids.equal(whole.label_ids));
    EXPECT_NEAR(shared.loss, whole.loss, 1e-6);
  });
}

class EvaluationOfDtype : public ::testing::TestWithParam<at::ScalarType> {};

// Outputs [n, 1 + n % 3] and labels of one dtype, with 5 samples on 3 ranks and one on 2: shares differ, and one is
// empty.
TEST_P(EvaluationOfDtype, GathersOutputsAndLabels) {
  const at::ScalarType dtype = GetParam();
  for (const std::int64_t samples : {1, 5}) {
    const at::Tensor values = torch::arange(samples, torch::kLong).remainder(2).to(dtype);
    const auto data = std::make_shared<TensorDataset>(Batch{{"x", torch::arange(samples)}, {"labels", values}});
    const auto model = adapt(
        std::make_shared<CountingNet>(),
        [&](CountingNet&, const Batch& batch) {
          const std::int64_t width = 1 + batch.at("x")[0].item<std::int64_t>() % 3;
          return values.index_select(0, batch.at("x")).unsqueeze(1).expand({-1, width}).contiguous();
        },
        [](const at::Tensor&, const Batch& batch) {
          return LossSum{torch::zeros({}), torch::tensor(batch.at("x").size(0), torch::kLong)};
        });
    EvaluationOptions options;
    options.batch_size = 1;
    for (const int ranks : {2, 3}) {
      spawn_threads(ranks, [&](const std::shared_ptr<Communicator>& group) {
        const EvaluationResult result = evaluate_dataset(*model, data, options, group);
        EXPECT_EQ(result.label_ids.scalar_type(), dtype);
        EXPECT_TRUE(same_values(result.label_ids, values));
        ASSERT_EQ(result.predictions.sizes(), (std::vector<std::int64_t>{samples, std::min<std::int64_t>(samples, 3)}));
        EXPECT_TRUE(same_values(result.predictions.select(1, 0), values));
        // The missing part of a row is -100, as that dtype represents it.
        const at::Tensor filling = torch::full({1}, -100.0, torch::kDouble).to(dtype);
        if (samples > 1) {
          EXPECT_TRUE(same_values(result.predictions[0].slice(0, 1, 2), filling));
        }
      });
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Table, EvaluationOfDtype,
                         ::testing::Values(at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf,
                                           at::kBFloat16, at::kFloat, at::kDouble, at::kComplexHalf, at::kComplexFloat,
                                           at::kComplexDouble),
                         [](const auto& test) { return std::string(c10::toString(test.param)); });

std::string error_of_evaluation(const std::function<at::Tensor(const at::Tensor& x)>& forward, std::int64_t samples,
                                const std::shared_ptr<Communicator>& group) {
  const auto model = adapt(
      std::make_shared<CountingNet>(), [&](CountingNet&, const Batch& batch) { return forward(batch.at("x")); },
      [](const at::Tensor& output, const Batch& batch) {
        return LossSum{output.sum(), torch::tensor(batch.at("x").size(0), torch::kLong)};
      });
  EvaluationOptions options;
  options.batch_size = 2;
  try {
    evaluate_dataset(*model, counting_data(samples), options, group);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// A model that returns its loss, say.
TEST(Evaluation, OutputsWithoutDimensionsAreAnError) {
  const auto loss = [](const at::Tensor& x) { return x.sum(); };
  const std::string text = error_of_evaluation(loss, 6, nullptr);
  EXPECT_NE(text.find("outputs are a single number"), std::string::npos) << text;
}

// Rows that are missing on only one rank would move all rows behind them to other samples.
TEST(Evaluation, OutputsOfRanksWithoutARowForEachSampleAreAnErrorOnAllRanks) {
  spawn_threads(2, [](const std::shared_ptr<Communicator>& group) {
    const auto without_4 = [](const at::Tensor& x) { return x.masked_select(x != 4); };
    const std::string text = error_of_evaluation(without_4, 6, group);
    EXPECT_NE(text.find("do not have one row for each sample"), std::string::npos) << text;
  });
}

TEST(Evaluation, LeavesTheModelInTheModeItFound) {
  const auto model = counting_model();
  model->set_training(true);
  evaluate_dataset(*model, counting_data(3), {}, nullptr);
  EXPECT_TRUE(model->tensors().is_training());
  model->set_training(false);
  evaluate_dataset(*model, counting_data(3), {}, nullptr);
  EXPECT_FALSE(model->tensors().is_training());
}

// Records the threads in which a model was called; the first thread waits for a second.
struct ThreadMeeting {
  std::mutex mutex;
  std::condition_variable changed;
  std::set<std::thread::id> threads;

  void enter() {
    std::unique_lock<std::mutex> lock(mutex);
    threads.insert(std::this_thread::get_id());
    changed.notify_all();
    changed.wait_for(lock, std::chrono::seconds(20), [&] { return threads.size() > 1; });
  }
};

TEST(Evaluation, ReplicasShareTheBatchesAndChangeNoBit) {
  const auto dataset = std::make_shared<TokenTaskDataset>(29);
  const auto net = make_token_net(0.5);
  EvaluationOptions options;
  options.batch_size = 3;
  options.collate = pad_tokens;
  const EvaluationResult alone = evaluate_dataset(*adapt_token_net(net), dataset, options, nullptr);
  ThreadMeeting meeting;
  const auto model = adapt(
      net,
      [&meeting](TokenNetImpl& module, const Batch& batch) {
        meeting.enter();
        return module.forward(batch.at("input_ids"));
      },
      token_loss);
  std::vector<std::int64_t> told;
  options.replicas = {"cpu:0", "cpu:1", "cpu:2"};
  options.on_batch = [&, caller = std::this_thread::get_id()](std::int64_t done, std::int64_t batches) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(batches, 10);
    told.push_back(done);
  };
  net->train();
  const EvaluationResult shared = evaluate_dataset(*model, dataset, options, nullptr);
  EXPECT_TRUE(net->is_training());
  EXPECT_GT(meeting.threads.size(), 1U);
  EXPECT_EQ(told, (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(shared.loss, alone.loss);
  EXPECT_EQ(shared.steps, alone.steps);
  EXPECT_TRUE(shared.predictions.equal(alone.predictions));
  EXPECT_TRUE(shared.label_ids.equal(alone.label_ids));
}

}  // namespace
}  // namespace lockstep
