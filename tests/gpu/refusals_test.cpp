// What has no way to work on CUDA devices yet is an error that says why, by whatever door it is asked for; `fuse` alone
// falls back. Ranks are processes; this one does not use CUDA, so that it can fork others.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <ostream>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "lockstep/comm/local_device.h"
#include "lockstep/data/tensor_dataset.h"
#include "lockstep/elastic/on_rank_change.h"
#include "lockstep/models/registry.h"
#include "lockstep/optim/adam.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/fully_sharded_data_parallel.h"
#include "lockstep/train/accelerator.h"
#include "lockstep/train/trainer.h"
#include "tests/gpu/device_words.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

struct CudaRefusal {
  const char* name;
  std::string reason;  // a part of the error
  std::function<void(const std::shared_ptr<Communicator>&)> ask;
  friend std::ostream& operator<<(std::ostream& out, const CudaRefusal& c) { return out << c.name; }
};
class CudaRefusals : public ::testing::TestWithParam<CudaRefusal> {};

const char* const kMemoryOfTheCpu = "the update that ranks share writes only CPU memory";
const char* const kOrder = "kernels of CUDA promise no fixed order of additions";

std::shared_ptr<Model> small_model() {
  ModelOptions sizes;
  std::shared_ptr<Model> model = make_model("convnet", sizes);
  model->to(use_local_device());
  return model;
}

DistributedDataParallelOptions in_group(const std::shared_ptr<Communicator>& group) {
  DistributedDataParallelOptions options;
  options.process_group = group;
  return options;
}

TEST_P(CudaRefusals, SayWhy) {
  SKIP_BELOW_DEVICES(2);
  run_ranks_as_processes(2, [&](const Membership& membership) {
    ::setenv("LOCAL_RANK", std::to_string(membership.rank).c_str(), 1);
    try {
      GetParam().ask(make_communicator("", membership));
      ADD_FAILURE() << "it was not refused";
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_TRUE(cuda_text_has(text, GetParam().reason)) << text;
      EXPECT_TRUE(cuda_text_has(text, "fix: ")) << text;
    }
  });
}

void fuse_in_stage(const std::shared_ptr<Communicator>& group, int stage) {
  const auto model = small_model();
  DistributedDataParallel ddp(model, in_group(group));
  Adam adam(model->parameters(), torch::optim::AdamOptions(1e-3));
  FuseOptions how;
  how.stage = stage;
  if (ddp.fuse(adam, how).mode() != FuseMode::Off) return;
  throw Error(ddp.fused_step().reason(), "fuse", "nothing");  // what fully_shard and Trainer make of it
}

void train_with(const std::shared_ptr<Communicator>& group, const std::function<void(TrainingArguments&)>& choose) {
  const TemporaryFolder folder;
  TrainerOptions options;
  options.model = adapt(small_model());
  options.process_group = group;
  options.args.output_dir = folder.path();
  options.args.save_strategy = "no";
  choose(options.args);
  options.train_dataset = std::make_shared<TensorDataset>(
      Batch{{"images", torch::full({8, 1, 28, 28}, 0.5)}, {"labels", torch::zeros({8}, torch::kLong)}});
  Trainer(options).train();
}

void accelerate_with_plugin(const std::shared_ptr<Communicator>& group, ShardingStrategy strategy) {
  AcceleratorOptions options;
  options.ddp.process_group = group;
  options.fsdp_plugin = FullyShardedDataParallelPlugin();
  options.fsdp_plugin->sharding_strategy = strategy;
  Accelerator accelerator(options);
  const auto model = small_model();
  Adam adam(model->parameters(), torch::optim::AdamOptions(1e-3));
  accelerator.prepare(model, adam);
}

INSTANTIATE_TEST_SUITE_P(
    Table, CudaRefusals,
    ::testing::Values(
        CudaRefusal{"fuse", kMemoryOfTheCpu, [](const auto& group) { fuse_in_stage(group, 1); }},
        CudaRefusal{"stage_2", kMemoryOfTheCpu, [](const auto& group) { fuse_in_stage(group, 2); }},
        CudaRefusal{"stage_3", kMemoryOfTheCpu, [](const auto& group) { fuse_in_stage(group, 3); }},
        CudaRefusal{"fully_shard", kMemoryOfTheCpu,
                    [](const auto& group) {
                      const auto model = small_model();
                      AdamW adam(model->parameters(), torch::optim::AdamWOptions(1e-3));
                      FullyShardOptions options;
                      options.process_group = group;
                      fully_shard(model, adam, options);
                    }},
        CudaRefusal{"trainer_shard_grad_op", kMemoryOfTheCpu,
                    [](const auto& group) {
                      train_with(group, [](auto& args) { args.fsdp = std::vector<std::string>{"shard_grad_op"}; });
                    }},
        CudaRefusal{"trainer_full_shard", kMemoryOfTheCpu,
                    [](const auto& group) {
                      train_with(group, [](auto& args) { args.fsdp = std::vector<std::string>{"full_shard"}; });
                    }},
        CudaRefusal{"plugin_full_shard", kMemoryOfTheCpu,
                    [](const auto& group) { accelerate_with_plugin(group, ShardingStrategy::FullShard); }},
        CudaRefusal{"plugin_shard_grad_op", kMemoryOfTheCpu,
                    [](const auto& group) { accelerate_with_plugin(group, ShardingStrategy::ShardGradOp); }},
        CudaRefusal{"virtual_shards", kOrder,
                    [](const auto& group) {
                      DistributedDataParallelOptions options = in_group(group);
                      options.virtual_shards = 4;
                      DistributedDataParallel ddp(small_model(), options);
                    }},
        CudaRefusal{"trainer_virtual_shards", kOrder,
                    [](const auto& group) { train_with(group, [](auto& args) { args.virtual_shards = 4; }); }},
        CudaRefusal{"on_rank_change", "a loop that survives lost ranks cannot use a tensor on cuda:",
                    [](const auto& /*group*/) {
                      ElasticState state;
                      state.tensors = small_model()->parameters();
                      const auto run = on_rank_change(state, [](const auto& of_rank) { return of_rank; });
                    }}),
    [](const auto& test) { return test.param.name; });

// The same training without the step that ranks share: the fallback of stage 1 trains.
TEST(CudaFuse, FallsBackAndTrains) {
  SKIP_BELOW_DEVICES(2);
  run_ranks_as_processes(2, [](const Membership& membership) {
    ::setenv("LOCAL_RANK", std::to_string(membership.rank).c_str(), 1);
    const std::shared_ptr<Communicator> group = make_communicator("", membership);
    std::vector<std::vector<at::Tensor>> ends;
    for (const bool fuses : {true, false}) {
      torch::manual_seed(5);
      const auto model = small_model();
      DistributedDataParallel ddp(model, in_group(group));
      Adam adam(model->parameters(), torch::optim::AdamOptions(1e-2));
      if (fuses) {
        EXPECT_EQ(ddp.fuse(adam).mode(), FuseMode::Off);
      }
      for (int step = 0; step < 3; ++step) {
        adam.zero_grad();
        ddp(Batch{{"images", torch::full({2, 1, 28, 28}, 0.1 * (step + membership.rank)).to(use_local_device())}})
            .square()
            .mean()
            .backward();
        adam.step();
      }
      ends.push_back(model->parameters());
    }
    for (std::size_t i = 0; i < ends[0].size(); ++i) EXPECT_TRUE(ends[0][i].cpu().equal(ends[1][i].cpu())) << i;
  });
}

}  // namespace
}  // namespace lockstep
