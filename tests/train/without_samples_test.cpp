// Tests ranks whose share is one sample smaller: they keep step with the others, and whatever they run meanwhile has no
// effect.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "lockstep/comm/spawn.h"
#include "lockstep/data/exact_distributed_sampler.h"
#include "lockstep/data/tensor_dataset.h"
#include "lockstep/parallel/sync_batch_norm.h"
#include "lockstep/train/trainer.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

TrainingArguments plain_sgd(const std::string& folder, std::int64_t batch_size, bool fuse) {
  TrainingArguments args;
  args.output_dir = folder;
  args.optim = "sgd";
  args.learning_rate = 0.1;
  args.lr_scheduler_type = "constant";
  args.max_grad_norm = 0;
  args.num_train_epochs = 1;
  args.per_device_train_batch_size = batch_size;
  args.save_strategy = "no";
  args.fuse = fuse;
  return args;
}

// The loss of a batch is log(w Σx): for sample 0 alone, whose x is 0, it is infinite and its gradient NaN.
struct LogNet : torch::nn::Module {
  LogNet() {
    unused = register_parameter("unused", torch::full({3}, 5.0));
    weight = register_parameter("weight", torch::full({}, 2.0));
  }
  at::Tensor unused;
  at::Tensor weight;
};

// A seed that puts sample 0 into a batch of two, not into the last batch, which has a single sample.
std::int64_t seed_without_zero_at_the_end() {
  for (std::int64_t seed = 1;; ++seed) {
    ExactDistributedSamplerOptions options;
    options.num_replicas = 1;
    options.shuffle = true;
    options.seed = static_cast<std::uint64_t>(seed);
    ExactDistributedSampler sampler(5, options);
    if (sampler.indices().back() != 0) return seed;
  }
}

class WithoutSamples : public ::testing::TestWithParam<std::tuple<bool, std::int64_t>> {};

// 5 samples on 2 ranks in batches of 2: the second update has one sample on rank 0, and none on rank 1.
TEST_P(WithoutSamples, AnInfiniteLossOfAnotherSampleReachesNobody) {
  const auto [fuse, accumulation] = GetParam();
  const Batch fields{{"x", torch::arange(5, torch::kFloat)}, {"labels", torch::zeros({5}, torch::kLong)}};
  const auto data = std::make_shared<TensorDataset>(fields);
  spawn_threads(2, [&, fused = fuse, windows = accumulation](const std::shared_ptr<Communicator>& group) {
    const TemporaryFolder folder;
    auto net = std::make_shared<LogNet>();
    int calls = 0;
    TrainerOptions options;
    options.model = adapt(
        net,
        [&calls](LogNet& each, const Batch& batch) {
          ++calls;
          return each.weight * batch.at("x");
        },
        [](const at::Tensor& output, const Batch&) {
          return LossSum{output.sum().log(), torch::tensor(output.size(0), torch::kLong)};
        });
    options.train_dataset = data;
    options.process_group = group;
    options.print = nullptr;
    options.args = plain_sgd(folder.path(), 2, fused);
    options.args.weight_decay = 0.5;  // applies only to parameters with a gradient
    options.args.data_seed = seed_without_zero_at_the_end();
    options.args.gradient_accumulation_steps = windows;
    Trainer(options).train();
    // d log(w Σx) / dw = 1 / w. Four samples in two batches: 2 / w / 4; then one: 1 / w. At once: 3 / w / 5.
    double want = 2;
    for (const double factor : windows == 1 ? std::vector<double>{0.5, 1} : std::vector<double>{0.6}) {
      want -= 0.1 * (factor / want + 0.5 * want);
    }
    EXPECT_NEAR(net->weight.item<double>(), want, 1e-6) << "rank " << group->rank();
    EXPECT_TRUE(net->unused.equal(torch::full({3}, 5.0))) << "no rank has a gradient of it, so it does not decay";
    EXPECT_EQ(calls, group->rank() == 0 ? 2 : 1);
  });
}
INSTANTIATE_TEST_SUITE_P(FusedAndAccumulation, WithoutSamples,
                         ::testing::Combine(::testing::Bool(), ::testing::Values(1, 2)));

struct NormNetImpl : torch::nn::Cloneable<NormNetImpl> {
  NormNetImpl() { reset(); }
  void reset() override {
    in = register_module("in", torch::nn::Conv1d(torch::nn::Conv1dOptions(2, 3, 1)));
    norm = register_module("norm", SyncBatchNorm(3));
    head = register_module("head", torch::nn::Linear(3, 1));
    const torch::NoGradGuard no_grad;
    double value = 0.3;
    for (at::Tensor& parameter : parameters()) {
      parameter.copy_(torch::arange(parameter.numel(), torch::kFloat).mul(0.7).add(value).cos().view_as(parameter));
      value += 0.4;
    }
  }
  at::Tensor forward(const at::Tensor& x) { return head(torch::tanh(norm(in(x))).mean(2)).squeeze(1); }
  torch::nn::Conv1d in{nullptr};
  SyncBatchNorm norm{nullptr};
  torch::nn::Linear head{nullptr};
};

at::Tensor weights_of_norm_net(const std::shared_ptr<Communicator>& group, std::int64_t batch_size) {
  const TemporaryFolder folder;
  const at::Tensor x = torch::arange(5 * 2 * 4, torch::kFloat).mul(0.9).sin().reshape({5, 2, 4});
  auto net = std::make_shared<NormNetImpl>();
  if (group) net->norm->options.process_group = group;
  TrainerOptions options;
  options.model = adapt(
      net, [](NormNetImpl& each, const Batch& batch) { return each.forward(batch.at("x")); },
      [](const at::Tensor& output, const Batch& batch) {
        return LossSum{(output - batch.at("y")).pow(2).sum(), torch::tensor(output.size(0), torch::kLong)};
      });
  options.train_dataset = std::make_shared<TensorDataset>(Batch{{"x", x}, {"y", x.select(2, 0).sum(1)}});
  options.process_group = group;
  options.print = nullptr;
  options.args = plain_sgd(folder.path(), batch_size, false);
  Trainer(options).train();
  std::vector<at::Tensor> flat;
  for (const at::Tensor& parameter : net->parameters()) flat.push_back(parameter.detach().flatten());
  flat.push_back(net->norm->running_mean);
  flat.push_back(net->norm->running_var);
  return torch::cat(flat);
}

// Statistics over all ranks need every rank in forward and backward, and must count only real samples.
TEST(WithoutSamplesOfSyncBatchNorm, ComputesWhatOneProcessComputes) {
  const at::Tensor want = weights_of_norm_net(nullptr, 4);
  spawn_threads(2, [&](const std::shared_ptr<Communicator>& group) {
    const at::Tensor got = weights_of_norm_net(group, 2);
    EXPECT_LE((got - want).abs().max().item<double>(), 1e-5) << got << want;
  });
}

}  // namespace
}  // namespace lockstep
