// Tests that training in bf16 follows training in fp32, and PyTorch's; that fp16 scales losses, skips updates that
// overflowed, and reports devices that do not support it.
#include "lockstep/detail/train/mixed_precision.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/comm/spawn.h"
#include "lockstep/data/tensor_dataset.h"
#include "lockstep/detail/tensor/autocast.h"
#include "lockstep/detail/train/prepared_optimizer.h"
#include "lockstep/models/registry.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/lr_scheduler.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/train/accelerator/update_state.h"
#include "lockstep/train/bf16_speed.h"
#include "lockstep/train/loop/gradient_engine.h"
#include "lockstep/train/trainer.h"
#include "tests/data/python_program.h"
#include "tests/train/token_training.h"
#include "tests/train/torch_releases.h"

namespace lockstep {
namespace {

std::vector<double> losses_of(const Trainer& trainer) {
  std::vector<double> losses;
  for (const LogEntry& entry : trainer.state().log_history) {
    const auto loss = entry.values.find("loss");
    if (loss != entry.values.end()) losses.push_back(loss->second);
  }
  return losses;
}

// Texts whose first token determines their class.
std::shared_ptr<const Dataset> first_token_task() {
  torch::manual_seed(5);
  const at::Tensor ids = torch::randint(1, 100, {48, 12}, torch::kLong);
  return std::make_shared<TensorDataset>(Batch{{"input_ids", ids},
                                               {"attention_mask", torch::ones({48, 12}, torch::kLong)},
                                               {"labels", ids.select(1, 0).gt(50).to(torch::kLong)}});
}

struct BertRun {
  std::vector<double> losses;
  double eval_loss = 0;
  at::Tensor predictions;
};

BertRun train_bert(bool bf16, bool gradient_checkpointing, std::int64_t replicas = 0) {
  torch::manual_seed(7);
  ModelOptions small;
  small.num_labels = 2;
  small.vocab_size = 100;
  small.dropout = 0;
  small.gradient_checkpointing = gradient_checkpointing;
  const TemporaryFolder folder;
  TrainerOptions options;
  const auto model = adapt(make_model("bert-tiny", small));
  model->set_recomputes_activations(gradient_checkpointing);
  options.model = model;
  options.train_dataset = first_token_task();
  options.print = nullptr;
  options.args.output_dir = folder.path();
  options.args.save_strategy = "no";
  options.args.bf16 = bf16;
  options.args.gradient_checkpointing = gradient_checkpointing;
  options.args.per_device_train_batch_size = replicas > 0 ? 8 / replicas : 8;
  options.args.replicas = replicas;
  options.args.num_train_epochs = 10;
  options.args.learning_rate = 5e-4;
  options.args.logging_steps = 6;
  Trainer trainer(options);
  trainer.train();
  const PredictionOutput output = trainer.predict(options.train_dataset);
  return {losses_of(trainer), *find_log(output.metrics, "test_loss"), output.predictions};
}

// The weights of a small BERT after three steps in bf16 on two ranks, as rank 0 has them.
std::vector<at::Tensor> weights_after_bf16_steps(bool fuses) {
  std::vector<at::Tensor> weights;
  ModelOptions small;
  small.vocab_size = 100;
  small.dropout = 0;
  std::vector<std::shared_ptr<Model>> models;  // threads share a generator, so models are made before they start
  for (int rank = 0; rank < 2; ++rank) {
    torch::manual_seed(7);
    models.push_back(make_model("bert-tiny", small));
  }
  spawn_threads(2, [&](const std::shared_ptr<Communicator>& group) {
    const int rank = group->rank();
    const std::shared_ptr<Model>& model = models[static_cast<std::size_t>(rank)];
    DistributedDataParallelOptions options;
    options.process_group = group;
    DistributedDataParallel ddp(model, options);
    Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-3));
    if (fuses) ddp.fuse(optimizer);
    RandomBatchOptions shape;
    shape.size = 4;
    shape.sequence_length = 12;
    for (int step = 0; step < 3; ++step) {
      shape.seed = static_cast<std::uint64_t>(10 * step + rank);
      const Batch batch = model->random_batch(shape);
      optimizer.zero_grad();
      at::Tensor output;
      {
        const Autocast autocast(c10::DeviceType::CPU, at::kBFloat16, true);
        output = ddp(batch).to(at::kFloat);
      }
      model->loss(output, batch).mean().backward();
      optimizer.step();
    }
    if (rank != 0) return;
    for (const at::Tensor& parameter : model->parameters()) weights.push_back(parameter.detach().clone());
  });
  return weights;
}

TEST(MixedPrecision, FusedStepsHaveTheBitsOfSeparateOnes) {
  const std::vector<at::Tensor> fused = weights_after_bf16_steps(true), separate = weights_after_bf16_steps(false);
  ASSERT_FALSE(separate.empty());
  for (std::size_t i = 0; i < separate.size(); ++i) EXPECT_TRUE(torch::equal(fused[i], separate[i])) << i;
}

TEST(Bf16Speed, AWarningNamesTheFactorAndWhatToUse) {
  EXPECT_EQ(slow_bf16_warning(2.1), "");
  EXPECT_EQ(slow_bf16_warning(0.99), "");  // noise
  EXPECT_NE(slow_bf16_warning(0.5).find("bf16 is 0.5 times as fast as fp32 on this processor"), std::string::npos);
  EXPECT_NE(slow_bf16_warning(0.034).find("0.034 times"), std::string::npos);
  EXPECT_NE(slow_bf16_warning(0.5).find("use fp32"), std::string::npos);
}

TEST(Bf16Speed, IsMeasuredOnce) {
  const double speedup = bf16_speedup();
  EXPECT_GT(speedup, 0);
  EXPECT_TRUE(std::isfinite(speedup));
  EXPECT_EQ(bf16_speedup(), speedup);
}

TEST(MixedPrecision, BertLearnsInBf16AsInFp32) {
  const BertRun whole = train_bert(false, false);
  const BertRun half = train_bert(true, false);
  ASSERT_EQ(half.losses.size(), whole.losses.size());
  EXPECT_LT(whole.losses.back(), 0.2);
  EXPECT_LT(half.losses.back(), 0.2);
  EXPECT_NEAR(half.losses.front(), whole.losses.front(), 0.02);
  EXPECT_NEAR(half.eval_loss, whole.eval_loss, 0.1);
  EXPECT_NE(half.losses.front(), whole.losses.front());
  EXPECT_EQ(half.predictions.scalar_type(), at::kFloat);
}

TEST(MixedPrecision, RecomputedActivationsAreInThatPrecisionToo) {
  for (const bool bf16 : {false, true}) EXPECT_EQ(train_bert(bf16, true).losses, train_bert(bf16, false).losses);
}

TEST(MixedPrecision, ReplicasComputeInItToo) {
  const BertRun one = train_bert(true, false);
  const BertRun two = train_bert(true, false, 2);
  ASSERT_EQ(two.losses.size(), one.losses.size());
  EXPECT_NEAR(two.losses.front(), one.losses.front(), 2e-3);
  EXPECT_NEAR(two.eval_loss, one.eval_loss, 0.05);
}

// Compares with PyTorch in Python under torch.autocast, with the same network, data and optimizer.
TEST(MixedPrecision, LossesAreThoseOfPyTorch) {
  const std::string output = run_python(R"(
import json, torch
def wave(*shape, k): return (torch.arange(torch.Size(shape).numel(), dtype=torch.float64) * 0.7 + k).sin().float().reshape(shape) * 0.3
N = torch.nn
net = N.Sequential(N.Linear(8, 16), N.GELU(), N.Linear(16, 16), N.Tanh(), N.Linear(16, 4))
with torch.no_grad():
    for k, p in enumerate(net.parameters()): p.copy_(wave(*p.shape, k=k))
x = wave(64, 8, k=9) * 5
y = (x[:, :4].sum(1) > 0).long() + 2 * (x[:, 4:].sum(1) > 0).long()
sgd = torch.optim.SGD(net.parameters(), lr=0.5)
losses = []
for _ in range(20):
    with torch.autocast('cpu', torch.bfloat16): out = net(x)
    loss = torch.nn.functional.cross_entropy(out.float(), y)
    sgd.zero_grad(); loss.backward(); sgd.step()
    losses.append(loss.item())
print(json.dumps({'losses': losses, 'version': torch.__version__}))
)");
  if (output.empty()) GTEST_SKIP() << "no Python with torch: apt-get install python3-torch";
  const auto wave = [](at::IntArrayRef shape, double k) {
    return (torch::arange(c10::multiply_integers(shape), torch::kDouble) * 0.7 + k)
               .sin()
               .to(torch::kFloat)
               .reshape(shape) *
           0.3;
  };
  torch::nn::Sequential net(torch::nn::Linear(8, 16), torch::nn::GELU(), torch::nn::Linear(16, 16), torch::nn::Tanh(),
                            torch::nn::Linear(16, 4));
  {
    const torch::NoGradGuard no_grad;
    double k = 0;
    for (const at::Tensor& parameter : net->parameters()) parameter.detach().copy_(wave(parameter.sizes(), k++));
  }
  const TemporaryFolder folder;
  TrainerOptions options;
  options.model = adapt(
      net.ptr(), [](torch::nn::SequentialImpl& each, const Batch& batch) { return each.forward(batch.at("x")); },
      token_loss);
  const at::Tensor x = wave({64, 8}, 9) * 5;
  const auto is_positive = [&](std::int64_t first) { return x.narrow(1, first, 4).sum(1).gt(0).to(torch::kLong); };
  options.train_dataset =
      std::make_shared<TensorDataset>(Batch{{"x", x}, {"labels", is_positive(0) + 2 * is_positive(4)}});
  options.print = nullptr;
  options.args.output_dir = folder.path();
  options.args.save_strategy = "no";
  options.args.bf16 = true;
  options.args.optim = "sgd";
  options.args.learning_rate = 0.5;
  options.args.lr_scheduler_type = "constant";
  options.args.max_grad_norm = 0;
  options.args.per_device_train_batch_size = 64;
  options.args.num_train_epochs = 20;
  options.args.logging_steps = 1;
  Trainer trainer(options);
  trainer.train();
  const nlohmann::json recorded = nlohmann::json::parse(output);
  const std::vector<double> want = recorded.at("losses");
  // bf16 has 8 bits, and versions round in different places: between 1.13 and 2.15 a loss of 0.49 differs by 1.5e-3.
  const bool is_same_version = recorded.at("version").get<std::string>().rfind(kTorchRelease, 0) == 0;
  const double tolerance = is_same_version ? 1e-3 : 0x1p-8;
  const std::vector<double> got = losses_of(trainer);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << "step " << i + 1;
  EXPECT_LT(want.back(), 0.8 * want.front());
}

TEST(MixedPrecision, TheEnvironmentSpeaksWhereArgumentsDoNot) {
  ASSERT_EQ(::setenv("ACCELERATE_MIXED_PRECISION", "bf16", 1), 0);
  TokenTraining training;
  Trainer(training.options).train();
  ASSERT_EQ(::setenv("ACCELERATE_MIXED_PRECISION", "bf17", 1), 0);
  EXPECT_THROW(Trainer{training.options}, Error);
  ::unsetenv("ACCELERATE_MIXED_PRECISION");
  EXPECT_TRUE(training.has_printed("Mixed precision = bf16"));
}

// What a variable asks for is an argument like any other: it is saved, and compared with a checkpoint's.
TEST(MixedPrecision, OfTheEnvironmentIsSavedAndComparedAsAnArgument) {
  TokenTraining first;
  first.options.args.save_strategy = "steps";
  first.options.args.save_steps = 3;
  ASSERT_EQ(::setenv("ACCELERATE_MIXED_PRECISION", "bf16", 1), 0);
  Trainer trainer(first.options);
  ::unsetenv("ACCELERATE_MIXED_PRECISION");
  EXPECT_TRUE(trainer.args().bf16);
  trainer.train();
  const std::string checkpoint = first.folder / "checkpoint-3";
  const auto saved = nlohmann::json::parse(read_file(checkpoint + "/training_args.json"));
  EXPECT_EQ(saved.at("bf16"), true);
  TokenTraining second;
  second.options.args = first.options.args;
  second.options.args.resume_from_checkpoint = checkpoint;
  Trainer(second.options).train();
  EXPECT_TRUE(second.has_printed("warning: bf16 is false, but true in the checkpoint: applies from here on"));
}

TEST(MixedPrecision, WhatCannotBeIsRefused) {
  TokenTraining training;
  TrainerOptions options = training.options;
  options.args.bf16 = options.args.fp16 = true;
  EXPECT_THROW(Trainer{options}, UsageError);
  options.args.bf16 = false;
  if (kHasFp16OnCpu) {
    EXPECT_NO_THROW(Trainer{options});
    return;
  }
  try {
    const Trainer trainer(options);
    FAIL() << "fp16 on a CPU that has none";
  } catch (const Error& error) {
    EXPECT_NE(error.happened().find("no fp16 matrix product on the CPU"), std::string::npos) << error.what();
  }
}

// Compares an update with and without fp16's scaling: the scale is a power of two, so the bits are equal.
TEST(LossScale, ChangesNoBitOfAnUpdate) {
  const auto dataset = std::make_shared<TokenTaskDataset>(8);
  const Batch batch = pad_tokens({dataset->get(1), dataset->get(2), dataset->get(3)});
  for (const double max_norm : {0.0, 0.01}) {
    std::vector<at::Tensor> weights;
    for (const bool scaled : {false, true}) {
      const auto net = make_token_net();
      const std::shared_ptr<TrainableModel> model = adapt_token_net(net);
      const auto engine = make_gradient_engine({}, {}, model, nullptr);
      SGD sgd(net->parameters(), torch::optim::SGDOptions(0.1));
      GradScaler scaler;
      GradientEngine::MicroBatch how;
      if (scaled) how.loss_scale = scaler.get_scale();
      const LossSum loss = engine->run(batch, how);
      StepOptions options;
      options.gradient_factor = engine->gradient_factor(loss.count.item<std::int64_t>());
      options.max_norm = max_norm;
      const StepResult result = scaled ? scaler.step(sgd, options) : sgd.step_with(options);
      EXPECT_FALSE(result.skipped);
      weights.push_back(flat_weights(*net));
    }
    EXPECT_TRUE(weights[0].allclose(weights[1], 1e-6, 1e-8)) << max_norm;
    EXPECT_FALSE(weights[0].equal(flat_weights(*make_token_net())));
  }
}

TEST(LossScale, AnOverflowLeavesOutTheStepAndTheSchedulersToo) {
  torch::nn::Linear first(1, 1), second(1, 1);
  Adam adam(first->parameters(), torch::optim::AdamOptions(0.1));
  torch::optim::SGD sgd(second->parameters(), 0.1);
  LambdaLR rates(adam, make_schedule("constant", {}));
  const auto state = std::make_shared<UpdateState>(1);
  state->scaler.emplace();
  PreparedOptimizer of_first(adam, state), of_second(sgd, state);
  PreparedScheduler scheduler(rates, state);
  const auto update = [&](float gradient) {
    const at::Tensor scale = state->scaler->scale(torch::ones({}));
    for (const auto& net : {first, second}) {
      for (const at::Tensor& parameter : net->parameters()) {
        parameter.mutable_grad() = torch::full_like(parameter, gradient) * scale;
      }
    }
    of_first.step();
    of_second.step();
    scheduler.step();
  };
  const at::Tensor before = first->weight.detach().clone();
  update(std::numeric_limits<float>::infinity());
  EXPECT_TRUE(first->weight.equal(before));
  EXPECT_TRUE(of_first.step_was_skipped());
  EXPECT_EQ(rates.last_step(), 0);
  EXPECT_EQ(state->scaler->get_scale(), 65536 / 4);  // halved for each optimizer
  update(1);
  EXPECT_FALSE(of_first.step_was_skipped());
  EXPECT_NEAR(first->weight.item<double>(), before.item<double>() - 0.1, 1e-5);  // the gradient was unscaled
  EXPECT_EQ(rates.last_step(), 1);
}

}  // namespace
}  // namespace lockstep
