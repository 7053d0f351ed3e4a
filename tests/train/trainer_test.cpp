#include "lockstep/train/trainer.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/comm/spawn.h"
#include "lockstep/data/tensor_dataset.h"
#include "lockstep/train/early_stopping.h"
#include "lockstep/train/loop/evaluation.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/same_values.h"
#include "tests/train/token_training.h"

namespace lockstep {
namespace {

// Calls a function at the end of each step.
class AtStepEnd : public TrainerCallback {
 public:
  explicit AtStepEnd(std::function<void(TrainerEvent&)> action) : action_(std::move(action)) {}
  void on_step_end(TrainerEvent& event) override { action_(event); }

 private:
  std::function<void(TrainerEvent&)> action_;
};

TEST(Trainer, LossFallsAndLinesAreHuggingFaces) {
  TokenTraining training(24);
  training.options.args.num_train_epochs = 20;
  training.options.args.logging_steps = 40;
  training.options.args.eval_strategy = "epoch";
  training.options.compute_metrics = classification_metrics();
  Trainer trainer(training.options);
  const TrainOutput output = trainer.train();
  EXPECT_EQ(output.global_step, 240);
  const auto& history = trainer.state().log_history;
  ASSERT_GT(history.size(), 3U);
  EXPECT_EQ(history.front().step, 12);  // the first evaluation
  const Logs last = trainer.evaluate();
  EXPECT_LT(*find_log(last, "eval_loss"), 0.5);
  EXPECT_GT(*find_log(last, "eval_accuracy"), 0.9);
  EXPECT_TRUE(training.has_printed("{'loss': "));
  EXPECT_TRUE(training.has_printed("'learning_rate': "));
  EXPECT_TRUE(training.has_printed("***** Running training *****"));
  EXPECT_TRUE(training.has_printed("'train_samples_per_second': "));
}

TEST(Trainer, TheRateThatIsLoggedIsTheOneThatWasUsed) {
  TokenTraining training(8);
  training.options.args.learning_rate = 0.4;
  training.options.args.logging_steps = 1;
  training.options.args.warmup_steps = 1;
  Trainer trainer(training.options);
  trainer.train();
  std::vector<double> rates;
  for (const LogEntry& entry : trainer.state().log_history) {
    const auto rate = entry.values.find("learning_rate");
    if (rate != entry.values.end()) rates.push_back(rate->second);
  }
  ASSERT_EQ(rates.size(), 4U);
  EXPECT_DOUBLE_EQ(rates[0], 0);    // warm-up
  EXPECT_DOUBLE_EQ(rates[1], 0.4);  // then falls to 0 in three steps
  EXPECT_DOUBLE_EQ(rates[2], 0.4 * 2 / 3);
  EXPECT_DOUBLE_EQ(rates[3], 0.4 / 3);
}

TEST(Trainer, DecaySparesBiasesAndNormalisation) {
  EXPECT_TRUE(is_decayed_name("bert.encoder.layer.0.attention.self.query.weight"));
  for (const char* name : {"bert.embeddings.LayerNorm.weight", "classifier.bias", "transformer.h.0.ln_1.weight",
                           "model.norm.weight", "layers.0.input_norm.weight", "rmsnorm.scale"}) {
    EXPECT_FALSE(is_decayed_name(name)) << name;
  }
  EXPECT_TRUE(is_decayed_name("normal.weight"));
}

TEST(Trainer, EarlyStoppingStopsAndTheBestModelComesBack) {
  TokenTraining training(24);
  training.options.args.num_train_epochs = 50;
  training.options.args.learning_rate = 3;  // too large: the loss soon increases
  training.options.args.eval_strategy = "epoch";
  training.options.args.save_strategy = "steps";
  training.options.args.save_steps = 1000;  // no regular checkpoint
  training.options.args.load_best_model_at_end = true;
  training.options.callbacks = {std::make_shared<EarlyStoppingCallback>(2)};
  Trainer trainer(training.options);
  const TrainOutput output = trainer.train();
  EXPECT_LT(output.global_step, 50 * 12);
  ASSERT_TRUE(trainer.state().best_metric.has_value());
  const Logs metrics = trainer.evaluate();
  EXPECT_NEAR(*find_log(metrics, "eval_loss"), *trainer.state().best_metric, 1e-6);
  EXPECT_TRUE(training.has_printed("Loading best model from "));
}

TEST(Trainer, AFlagOfOneRankHoldsForAll) {
  std::vector<std::int64_t> steps(2);
  spawn_threads(2, [&](const std::shared_ptr<Communicator>& group) {
    TokenTraining training(40);
    training.options.process_group = group;
    if (group->rank() == 1) {
      training.options.callbacks = {std::make_shared<AtStepEnd>([](TrainerEvent& event) {
        if (event.state.global_step == 3) event.control.should_training_stop = true;
      })};
    }
    steps[static_cast<std::size_t>(group->rank())] = Trainer(training.options).train().global_step;
  });
  EXPECT_EQ(steps, (std::vector<std::int64_t>{3, 3}));
}

// During training, each rank has its own batch statistics.
struct BatchNormNet : torch::nn::Module {
  BatchNormNet() {
    norm = register_module("norm", torch::nn::BatchNorm1d(4));
    head = register_module("head", torch::nn::Linear(4, 3));
  }
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear head{nullptr};
};

TEST(Trainer, AllRanksEvaluateTheModelThatIsSaved) {
  const Batch fields{{"x", torch::randn({30, 4})}, {"labels", torch::randint(3, {30}, torch::kLong)}};
  const auto data = std::make_shared<TensorDataset>(fields);
  torch::manual_seed(1);
  const BatchNormNet initial;
  spawn_threads(2, [&](const std::shared_ptr<Communicator>& group) {
    const TemporaryFolder folder;
    auto net = std::make_shared<BatchNormNet>();
    {
      const torch::NoGradGuard no_grad;
      net->head->weight.copy_(initial.head->weight);
      net->head->bias.copy_(initial.head->bias);
    }
    TrainerOptions options;
    options.model = adapt(
        net, [](BatchNormNet& each, const Batch& batch) { return each.head(each.norm(batch.at("x"))); }, token_loss);
    options.train_dataset = options.eval_dataset = data;
    options.process_group = group;
    options.print = nullptr;
    options.args.output_dir = folder.path();
    options.args.save_strategy = "no";
    options.args.num_train_epochs = 1;
    options.args.per_device_train_batch_size = 5;
    Trainer trainer(options);
    trainer.train();
    const double shared = *find_log(trainer.evaluate(), "eval_loss");
    EXPECT_NEAR(evaluate_dataset(*options.model, data, {}, nullptr).loss, shared, 1e-6);
  });
}

const std::vector<at::ScalarType> kBufferDtypes{
    at::kBool,     at::kByte,  at::kChar,   at::kShort,       at::kInt,          at::kLong,         at::kHalf,
    at::kBFloat16, at::kFloat, at::kDouble, at::kComplexHalf, at::kComplexFloat, at::kComplexDouble};

// A buffer of each dtype, such as an attention mask; values are even on rank 0, odd on rank 1.
struct NetWithBuffers : torch::nn::Module {
  explicit NetWithBuffers(int rank) {
    head = register_module("head", torch::nn::Linear(4, 3));
    for (const at::ScalarType dtype : kBufferDtypes) {
      buffers_of_each.push_back(register_buffer(std::string("buffer_of_") + c10::toString(dtype),
                                                (torch::arange(3, torch::kLong) * 2 + rank).to(dtype)));
    }
  }
  torch::nn::Linear head{nullptr};
  std::vector<at::Tensor> buffers_of_each;
};

class TrainerOverEngines : public ::testing::TestWithParam<std::string> {};

// 3 samples on 2 ranks: shares differ by one. 1 sample: one rank has none.
TEST_P(TrainerOverEngines, EvaluatesModelsWithBuffersOfEveryDtype) {
  SpawnOptions how;
  how.engine = GetParam();
  for (const std::int64_t samples : {1, 3, 4}) {
    const Batch fields{{"x", torch::arange(samples * 4, torch::kFloat).reshape({samples, 4})},
                       {"labels", torch::arange(samples, torch::kLong).remainder(3)}};
    const auto data = std::make_shared<TensorDataset>(fields);
    spawn_threads(
        2,
        [&](const std::shared_ptr<Communicator>& group) {
          auto net = std::make_shared<NetWithBuffers>(group->rank());
          {
            const torch::NoGradGuard no_grad;
            for (at::Tensor& parameter : net->parameters()) parameter.fill_(0.25);
          }
          TrainerOptions options;
          options.model = adapt(
              net, [](NetWithBuffers& each, const Batch& batch) { return each.head(batch.at("x")); }, token_loss);
          options.train_dataset = options.eval_dataset = data;
          options.process_group = group;
          options.print = nullptr;
          Trainer trainer(options);
          // All scores are equal for every sample: ln 3.
          EXPECT_NEAR(*find_log(trainer.evaluate(), "eval_loss"), std::log(3.0), 1e-6) << samples;
          EXPECT_EQ(trainer.predict(data).predictions.size(0), samples);
          const at::Tensor want = torch::arange(3, torch::kLong) * 2;
          for (const at::Tensor& buffer : net->buffers_of_each) {
            EXPECT_TRUE(same_values(buffer, want.to(buffer.scalar_type()))) << c10::toString(buffer.scalar_type());
          }
        },
        how);
  }
}
INSTANTIATE_TEST_SUITE_P(Engines, TrainerOverEngines, ::testing::Values("thread", "gloo"),
                         [](const auto& engine) { return engine.param; });

TEST(Trainer, TheBestModelIsFoundWhereTheFolderWasMovedTo) {
  TokenTraining training(12);
  TrainerOptions& options = training.options;
  const std::string first = training.folder / "first", second = training.folder / "second";
  options.args.output_dir = first;
  options.args.num_train_epochs = 2;
  options.args.eval_strategy = options.args.save_strategy = "epoch";
  options.args.load_best_model_at_end = true;
  options.args.metric_for_best_model = "loss";
  Trainer(options).train();
  std::filesystem::rename(first, second);
  options.args.output_dir = second;
  options.args.resume_from_checkpoint = "true";
  options.args.num_train_epochs = 3;
  options.args.learning_rate = 0;
  Trainer trainer(options);
  trainer.train();
  EXPECT_TRUE(training.has_printed("is recorded as " + first + "/checkpoint-"));
  EXPECT_TRUE(training.has_printed("Loading best model from " + second + "/checkpoint-"));
}

class TrainerStop : public ::testing::TestWithParam<int> {};

TEST_P(TrainerStop, SavesAndEnds) {
  TokenTraining training(40);
  training.options.args.gradient_accumulation_steps = 2;
  training.options.args.num_train_epochs = 100;
  training.options.callbacks = {std::make_shared<AtStepEnd>([](TrainerEvent& event) {
    if (event.state.global_step == 3) ::raise(GetParam());
  })};
  Trainer trainer(training.options);
  const TrainOutput output = trainer.train();
  EXPECT_EQ(output.stopped_by_signal, GetParam() == SIGINT ? SIGINT : SIGTERM);
  EXPECT_EQ(output.received_signal, GetParam());
  EXPECT_EQ(output.global_step, 4);  // the current update was finished
  EXPECT_TRUE(std::filesystem::exists(training.folder / "checkpoint-4/trainer_state.json"));
}

// Schedulers that end jobs send the first; Ctrl-C the second; those that warn before the time limit send the others.
INSTANTIATE_TEST_SUITE_P(Signals, TrainerStop, ::testing::Values(SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGXCPU));

// Makes the weights NaN after step 2.
void let_diverge(TokenTraining& training) {
  training.options.args.logging_steps = 1;
  const auto net = training.net;
  training.options.callbacks = {std::make_shared<AtStepEnd>([net](TrainerEvent& event) {
    const torch::NoGradGuard no_grad;
    if (event.state.global_step == 2) net->head->weight.fill_(std::numeric_limits<float>::quiet_NaN());
  })};
}

TEST(Trainer, WeightsThatAreNoNumbersEndTheTraining) {
  TokenTraining training(12);
  let_diverge(training);
  training.options.args.save_strategy = "steps";
  training.options.args.save_steps = 2;
  training.options.args.save_total_limit = 1;
  try {
    Trainer(training.options).train();
    ADD_FAILURE() << "it continued";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("step 3, rank 0 of 1"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("NaN or infinity (first in "), std::string::npos) << error.what();
  }
  EXPECT_TRUE(Checkpoint(training.folder / "checkpoint-2").has_file("scheduler.json")) << "no worse one took its place";
}

TEST(Trainer, ALossThatIsNoNumberIsReported) {
  TokenTraining training(12);
  let_diverge(training);
  training.options.args.stop_on_nan = false;
  testing::internal::CaptureStderr();
  Trainer(training.options).train();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("in step 3 on rank 0"), std::string::npos) << log;
  EXPECT_TRUE(training.has_printed("'loss': nan"));
}

// Hugging Face's Trainer ignores that evaluation, too, when it chooses the best model.
TEST(Trainer, AnEvaluationBeforeTheFirstUpdateIsNotOfTheBestModel) {
  TokenTraining training(12);
  training.options.args.eval_on_start = true;
  training.options.args.eval_strategy = training.options.args.save_strategy = "epoch";
  training.options.args.load_best_model_at_end = true;
  training.options.args.metric_for_best_model = "worst_at_the_end";
  training.options.args.greater_is_better = true;
  double value = 1;
  training.options.compute_metrics = [&](const EvalPrediction&) { return Metrics{{"worst_at_the_end", value /= 2}}; };
  Trainer trainer(training.options);
  trainer.train();
  EXPECT_EQ(trainer.state().best_model_checkpoint, training.folder / "checkpoint-6");
  EXPECT_EQ(trainer.state().best_metric, 0.25);
  EXPECT_FALSE(std::filesystem::exists(training.folder / "checkpoint-1"));
}

TEST(Trainer, PredictionsAreInTheDatasetsOrder) {
  TokenTraining training;
  Trainer trainer(training.options);
  const PredictionOutput output = trainer.predict(training.options.eval_dataset);
  EXPECT_EQ(output.predictions.size(0), 7);
  EXPECT_TRUE(find_log(output.metrics, "test_loss").has_value());
  const torch::NoGradGuard no_grad;
  training.net->eval();
  const at::Tensor ids = training.options.eval_dataset->get(4).at("input_ids");
  const at::Tensor want = training.net->forward(ids.unsqueeze(0))[0];
  EXPECT_TRUE(output.predictions[4].slice(0, 0, ids.size(0)).allclose(want));
}

TEST(Trainer, WhatIsMissingIsRefused) {
  TokenTraining training;
  TrainerOptions options = training.options;
  options.args.eval_strategy = "epoch";
  options.eval_dataset = nullptr;
  EXPECT_THROW(Trainer{options}, UsageError);
  options = training.options;
  options.args.gradient_checkpointing = true;
  EXPECT_THROW(Trainer{options}, UsageError);
  options = training.options;
  options.args.group_by_length = true;
  EXPECT_THROW(Trainer(options).train(), UsageError);
  options = training.options;
  options.args.parallel_mode = "ddp";
  EXPECT_THROW(Trainer(options).train(), UsageError);
  options = training.options;
  options.args.metric_for_best_model = "acuracy";
  options.args.eval_strategy = "epoch";
  EXPECT_THROW(Trainer(options).train(), UsageError);
}

TEST(Trainer, MetricsAreWrittenBesideEachOther) {
  TokenTraining training;
  Trainer trainer(training.options);
  trainer.save_metrics("train", {{"train_loss", 0.5}});
  trainer.save_metrics("eval", {{"eval_loss", 0.25}});
  const auto all = nlohmann::json::parse(read_file(training.folder / "all_results.json"));
  EXPECT_EQ(all, (nlohmann::json{{"train_loss", 0.5}, {"eval_loss", 0.25}}));
  trainer.save_model();
  EXPECT_TRUE(std::filesystem::exists(training.folder / "model.safetensors"));
}

}  // namespace
}  // namespace lockstep
