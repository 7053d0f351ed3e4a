// Tests that one process, replicas, ranks, accumulation and tails all give the same numbers.
#include <gtest/gtest.h>

#include "lockstep/comm/spawn.h"
#include "lockstep/data/exact_distributed_sampler.h"
#include "lockstep/train/trainer.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/token_task.h"

namespace lockstep {
namespace {

constexpr std::int64_t kFormulaSamples = 25;  // a whole update of 18, and a tail of 7
constexpr std::int64_t kFormulaBatch = 18;
constexpr double kFormulaRate = 0.5;

struct WayToTrain {
  const char* name;
  int ranks;
  std::int64_t replicas;
  std::int64_t per_device;
  std::int64_t accumulation;
  bool fuse;
  double label_smoothing;
  std::int64_t samples;
  const char* fsdp = "no_shard";
  friend std::ostream& operator<<(std::ostream& out, const WayToTrain& way) { return out << way.name; }
};

// The plain loop: each global batch at once, with the mean over its tokens.
at::Tensor weights_of_plain_loop(const WayToTrain& way, int epochs) {
  const auto net = make_token_net();
  const TokenTaskDataset dataset(way.samples);
  ExactDistributedSamplerOptions options;
  options.num_replicas = 1;
  options.shuffle = true;
  options.seed = 42;
  ExactDistributedSampler sampler(way.samples, options);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    sampler.set_epoch(epoch);
    const std::vector<std::int64_t> order = sampler.indices();
    for (std::size_t begin = 0; begin < order.size(); begin += kFormulaBatch) {
      std::vector<Example> examples;
      for (std::size_t i = begin; i < std::min<std::size_t>(begin + kFormulaBatch, order.size()); ++i) {
        examples.push_back(dataset.get(order[i]));
      }
      const Batch batch = pad_tokens(examples);
      net->zero_grad();
      const LossSum loss =
          smoothed_cross_entropy(net->forward(batch.at("input_ids")), batch.at("labels"), way.label_smoothing);
      (loss.sum / loss.count).backward();
      const torch::NoGradGuard no_grad;
      for (at::Tensor& parameter : net->parameters()) parameter -= kFormulaRate * parameter.grad();
    }
  }
  return flat_weights(*net);
}

at::Tensor weights_of_trainer(const WayToTrain& way, int epochs, const std::shared_ptr<Communicator>& group,
                              const std::string& folder) {
  const auto net = make_token_net();
  TrainerOptions options;
  options.model = adapt_token_net(net);
  options.train_dataset = std::make_shared<TokenTaskDataset>(way.samples);
  options.data_collator = pad_tokens;
  options.process_group = group;
  options.print = nullptr;
  options.args.output_dir = folder;
  options.args.optim = "sgd";
  options.args.learning_rate = kFormulaRate;
  options.args.lr_scheduler_type = "constant";
  options.args.max_grad_norm = 0;
  options.args.num_train_epochs = epochs;
  options.args.per_device_train_batch_size = way.per_device;
  options.args.gradient_accumulation_steps = way.accumulation;
  options.args.label_smoothing_factor = way.label_smoothing;
  options.args.fuse = way.fuse;
  options.args.fsdp = std::vector<std::string>{way.fsdp};
  options.args.replicas = way.replicas > 1 ? way.replicas : 0;
  options.args.save_strategy = "no";
  Trainer trainer(options);
  trainer.train();
  trainer.unshard();
  return flat_weights(*net);
}

class OneFormula : public ::testing::TestWithParam<WayToTrain> {};

TEST_P(OneFormula, GradientsAreThoseOfThePlainLoop) {
  const WayToTrain way = GetParam();
  const TemporaryFolder folder;
  // One update is one gradient; three epochs have tails in between.
  for (const int epochs : {1, 3}) {
    const at::Tensor want = weights_of_plain_loop(way, epochs);
    std::vector<at::Tensor> got(static_cast<std::size_t>(way.ranks));
    if (way.ranks == 1) {
      got[0] = weights_of_trainer(way, epochs, nullptr, folder.path());
    } else {
      SpawnOptions how;
      // Ranks that share memory have one copy of the weights.
      if (std::string(way.fsdp) == "full_shard") how.engine = "tcp";
      spawn_threads(
          way.ranks,
          [&](const std::shared_ptr<Communicator>& group) {
            got[static_cast<std::size_t>(group->rank())] = weights_of_trainer(way, epochs, group, folder.path());
          },
          how);
    }
    for (const at::Tensor& weights : got) {
      EXPECT_LE((weights - want).abs().max().item<double>(), 1e-6 * epochs) << epochs << " epochs";
      EXPECT_TRUE(weights.equal(got[0]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, OneFormula,
    ::testing::Values(
        WayToTrain{"one_process", 1, 1, 18, 1, true, 0, kFormulaSamples},
        WayToTrain{"one_process_accumulating", 1, 1, 6, 3, true, 0, kFormulaSamples},
        WayToTrain{"two_replicas", 1, 2, 9, 1, true, 0, kFormulaSamples},
        WayToTrain{"two_replicas_accumulating", 1, 2, 3, 3, true, 0, kFormulaSamples},
        WayToTrain{"two_ranks", 2, 1, 9, 1, false, 0, kFormulaSamples},
        WayToTrain{"two_ranks_fused", 2, 1, 9, 1, true, 0, kFormulaSamples},
        WayToTrain{"two_ranks_accumulating", 2, 1, 3, 3, false, 0, kFormulaSamples},
        WayToTrain{"two_ranks_accumulating_fused", 2, 1, 3, 3, true, 0, kFormulaSamples},
        WayToTrain{"three_ranks", 3, 1, 6, 1, false, 0, kFormulaSamples},
        WayToTrain{"three_ranks_accumulating_fused", 3, 1, 2, 3, true, 0, kFormulaSamples},
        WayToTrain{"three_ranks_one_without_samples", 3, 1, 6, 1, false, 0, 2},
        WayToTrain{"two_ranks_sharded", 2, 1, 9, 1, true, 0, kFormulaSamples, "shard_grad_op"},
        WayToTrain{"three_ranks_accumulating_sharded", 3, 1, 2, 3, true, 0, kFormulaSamples, "shard_grad_op"},
        WayToTrain{"three_ranks_one_without_samples_sharded", 3, 1, 6, 1, true, 0, 2, "shard_grad_op"},
        WayToTrain{"two_ranks_in_shards", 2, 1, 9, 1, true, 0, kFormulaSamples, "full_shard"},
        WayToTrain{"three_ranks_accumulating_in_shards", 3, 1, 2, 3, true, 0, kFormulaSamples, "full_shard"},
        WayToTrain{"three_ranks_one_without_samples_in_shards", 3, 1, 6, 1, true, 0, 2, "full_shard"},
        WayToTrain{"smoothed_labels_one_process", 1, 1, 18, 1, true, 0.1, kFormulaSamples},
        WayToTrain{"smoothed_labels_two_ranks", 2, 1, 9, 1, true, 0.1, kFormulaSamples}),
    [](const auto& test) { return test.param.name; });

// LibTorch's own AdamW and clipping; decay groups and the linear schedule by hand.
TEST(PlainLoop, AdamWithClippingDecayAndScheduleIsTheTrainers) {
  constexpr double kRate = 0.05;
  constexpr int kWarmup = 2;
  constexpr int kSteps = 6;  // three epochs of two
  const auto net = make_token_net();
  std::vector<at::Tensor> decayed;
  std::vector<at::Tensor> plain;
  for (const auto& item : net->named_parameters()) {
    const bool spared = item.key().find("bias") != std::string::npos || item.key().find("norm") != std::string::npos;
    (spared ? plain : decayed).push_back(item.value());
  }
  const auto options = torch::optim::AdamWOptions(kRate).weight_decay(0.1);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(decayed, std::make_unique<torch::optim::AdamWOptions>(options));
  groups.emplace_back(plain,
                      std::make_unique<torch::optim::AdamWOptions>(torch::optim::AdamWOptions(kRate).weight_decay(0)));
  torch::optim::AdamW optimizer(groups, options);
  const TokenTaskDataset dataset(kFormulaSamples);
  ExactDistributedSamplerOptions order;
  order.num_replicas = 1;
  order.shuffle = true;
  order.seed = 42;
  ExactDistributedSampler sampler(kFormulaSamples, order);
  for (int step = 0; step < kSteps; ++step) {
    sampler.set_epoch(step / 2);
    const std::vector<std::int64_t> indices = sampler.indices();
    std::vector<Example> examples;
    for (std::int64_t i = step % 2 * kFormulaBatch; i < std::min(kFormulaSamples, (step % 2 + 1) * kFormulaBatch);
         ++i) {
      examples.push_back(dataset.get(indices[static_cast<std::size_t>(i)]));
    }
    const Batch batch = pad_tokens(examples);
    net->zero_grad();
    const LossSum loss = token_loss(net->forward(batch.at("input_ids")), batch);
    (loss.sum / loss.count).backward();
    torch::nn::utils::clip_grad_norm_(net->parameters(), 0.2);
    const double factor =
        step < kWarmup ? static_cast<double>(step) / kWarmup : static_cast<double>(kSteps - step) / (kSteps - kWarmup);
    for (auto& group : optimizer.param_groups()) group.options().set_lr(kRate * factor);
    optimizer.step();
  }
  const at::Tensor want = flat_weights(*net);

  spawn_threads(2, [&](const std::shared_ptr<Communicator>& group) {
    const TemporaryFolder folder;
    const auto own = make_token_net();
    TrainerOptions trained;
    trained.model = adapt_token_net(own);
    trained.train_dataset = std::make_shared<TokenTaskDataset>(kFormulaSamples);
    trained.data_collator = pad_tokens;
    trained.process_group = group;
    trained.print = nullptr;
    trained.args.output_dir = folder.path();
    trained.args.learning_rate = kRate;
    trained.args.weight_decay = 0.1;
    trained.args.max_grad_norm = 0.2;
    trained.args.warmup_steps = kWarmup;
    trained.args.per_device_train_batch_size = 3;
    trained.args.gradient_accumulation_steps = 3;
    trained.args.save_strategy = "no";
    Trainer(trained).train();
    EXPECT_LE((flat_weights(*own) - want).abs().max().item<double>(), 1e-5);
  });
}

}  // namespace
}  // namespace lockstep
