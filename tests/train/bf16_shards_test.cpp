// Tests that a training in bf16 with weights in shards has the bits of one whose ranks have all weights.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/comm/spawn.h"
#include "lockstep/data/tensor_dataset.h"
#include "lockstep/models/registry.h"
#include "lockstep/train/trainer.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

std::shared_ptr<const Dataset> ids_with_labels(std::uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  const at::Tensor ids = torch::randint(1, 100, {40, 12}, generator, torch::kLong);
  return std::make_shared<TensorDataset>(Batch{{"input_ids", ids},
                                               {"attention_mask", torch::ones({40, 12}, torch::kLong)},
                                               {"labels", ids.select(1, 0).gt(50).to(torch::kLong)}});
}

struct Bf16ShardsRun {
  std::vector<at::Tensor> weights;
  std::vector<double> losses;  // of training, and of the evaluations in between
};

Bf16ShardsRun train_in_bf16(const std::string& fsdp, bool checkpoints_activations) {
  ModelOptions small;
  small.num_labels = 2;
  small.vocab_size = 100;
  small.dropout = 0;
  small.gradient_checkpointing = checkpoints_activations;
  std::vector<std::shared_ptr<Model>> models;  // threads share a generator, so models are made before they start
  for (int rank = 0; rank < 2; ++rank) {
    torch::manual_seed(7);
    models.push_back(make_model("bert-tiny", small));
  }
  const TemporaryFolder folder;
  Bf16ShardsRun result;
  SpawnOptions how;
  how.engine = "tcp";  // ranks that share memory have one copy of the weights
  spawn_threads(
      2,
      [&](const std::shared_ptr<Communicator>& group) {
        TrainerOptions options;
        const auto model = adapt(models[static_cast<std::size_t>(group->rank())]);
        model->set_recomputes_activations(checkpoints_activations);
        options.model = model;
        options.train_dataset = ids_with_labels(1);
        options.eval_dataset = ids_with_labels(2);
        options.process_group = group;
        options.print = nullptr;
        options.args.output_dir = folder.path();
        options.args.bf16 = true;
        options.args.fsdp = std::vector<std::string>{fsdp};
        options.args.gradient_checkpointing = checkpoints_activations;
        options.args.per_device_train_batch_size = 4;
        options.args.num_train_epochs = 2;
        options.args.learning_rate = 1e-3;
        options.args.logging_steps = 1;
        options.args.eval_strategy = "epoch";
        options.args.save_strategy = "epoch";
        Trainer trainer(options);
        trainer.train();
        trainer.unshard();
        if (group->rank() != 0) return;
        for (const LogEntry& entry : trainer.state().log_history) {
          for (const char* name : {"loss", "eval_loss"}) {
            const auto loss = entry.values.find(name);
            if (loss != entry.values.end()) result.losses.push_back(loss->second);
          }
        }
        for (const at::Tensor& parameter : models[0]->parameters()) {
          result.weights.push_back(parameter.detach().clone());
        }
      },
      how);
  return result;
}

TEST(Bf16Shards, HaveTheBitsOfWholeWeights) {
  for (const bool checkpoints_activations : {false, true}) {
    const Bf16ShardsRun want = train_in_bf16("shard_grad_op", checkpoints_activations);
    const Bf16ShardsRun got = train_in_bf16("full_shard", checkpoints_activations);
    ASSERT_EQ(want.losses.size(), 12);  // ten updates and two evaluations
    EXPECT_EQ(got.losses, want.losses);
    ASSERT_FALSE(want.weights.empty());
    for (std::size_t i = 0; i < want.weights.size(); ++i) {
      EXPECT_TRUE(torch::equal(got.weights[i], want.weights[i])) << i;
    }
  }
}

}  // namespace
}  // namespace lockstep
