// Accelerator with an FSDP plugin: prepare shares out the model with its optimizer.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "lockstep/optim/adam.h"
#include "lockstep/train/accelerator.h"
#include "tests/support/pretended_hosts.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

torch::nn::Sequential fsdp_net() {
  torch::nn::Sequential net;
  for (int i = 0; i < 3; ++i) net->push_back(torch::nn::Linear(16, 16));
  std::uint64_t seed = 3;
  const torch::NoGradGuard no_grad;
  for (at::Tensor& parameter : net->parameters()) {
    auto generator = at::detail::createCPUGenerator(seed++);
    parameter.copy_(torch::randn(parameter.sizes(), generator) * 0.3);
  }
  return net;
}

AcceleratorOptions fsdp_options(const std::shared_ptr<Communicator>& group) {
  AcceleratorOptions options;
  options.ddp.process_group = group;
  options.ddp.bucket_cap_mb = 0.001;
  return options;
}

// The weights after some steps. @param expected  what the ranks share
std::vector<at::Tensor> train_fsdp(const AcceleratorOptions& options, const std::function<void(bool)>& check_stage_3) {
  Accelerator accelerator(options);
  torch::nn::Sequential net = fsdp_net();
  Adam adam(net->parameters(), torch::optim::AdamOptions(0.01));
  auto [model, optimizer] = accelerator.prepare(net, adam);
  for (int step = 0; step < 3; ++step) {
    const at::Tensor rows = (torch::arange(64, torch::kFloat) + accelerator.process_index() + step).sin().view({4, 16});
    accelerator.backward(model(rows).square().mean());
    accelerator.clip_grad_norm_(model.parameters(), 10);
    optimizer.step();
    optimizer.zero_grad();
  }
  check_stage_3(model.ddp().fused_step().peak_weight_bytes() > 0);
  model.ddp().fused_step().unshard();
  std::vector<at::Tensor> weights;
  for (const at::Tensor& parameter : net->parameters()) weights.push_back(parameter.detach().clone());
  model.ddp().fused_step().reshard();
  accelerator.wait_for_everyone();
  return weights;
}

TEST(AcceleratorFsdp, PrepareSharesOutWithTheBitsOfPlainSteps) {
  struct Way {
    ShardingStrategy strategy;
    const char* engine;
    bool gathers;
  };
  for (const Way& way :
       {Way{ShardingStrategy::FullShard, "tcp", true}, Way{ShardingStrategy::ShardGradOp, "tcp", false},
        Way{ShardingStrategy::HybridShard, "", false}}) {
    run_ranks_as_threads(4, [&](const Membership& membership) {
      const std::shared_ptr<Communicator> group = make_communicator(way.engine, on_two_hosts(membership));
      AcceleratorOptions options = fsdp_options(group);
      const auto plain = train_fsdp(options, [](bool gathers) { EXPECT_FALSE(gathers); });
      options.fsdp_plugin.emplace();
      options.fsdp_plugin->sharding_strategy = way.strategy;
      options.fsdp_plugin->transformer_cls_names_to_wrap.clear();
      const auto sharded = train_fsdp(options, [&](bool gathers) { EXPECT_EQ(gathers, way.gathers); });
      ASSERT_EQ(plain.size(), sharded.size());
      for (std::size_t i = 0; i < plain.size(); ++i)
        EXPECT_TRUE(torch::allclose(plain[i], sharded[i], 1e-5, 1e-7)) << i;
    });
  }
}

TEST(AcceleratorFsdp, RefusesAPluginThatSharesOutNothing) {
  run_ranks_as_threads(1, [](const Membership& membership) {
    AcceleratorOptions options = fsdp_options(make_communicator("thread", membership));
    options.fsdp_plugin.emplace();
    options.fsdp_plugin->sharding_strategy = ShardingStrategy::NoShard;
    Accelerator accelerator(options);
    torch::nn::Sequential net = fsdp_net();
    Adam adam(net->parameters(), torch::optim::AdamOptions(0.01));
    try {
      accelerator.prepare(net, adam);
      ADD_FAILURE() << "nothing is shared out";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("sharding_strategy is NoShard"), std::string::npos) << error.what();
    }
  });
}

TEST(AcceleratorFsdp, SavesAsThePluginSays) {
  const TemporaryFolder folder;
  run_ranks_as_threads(2, [&](const Membership& membership) {
    AcceleratorOptions options = fsdp_options(make_communicator("tcp", membership));
    options.fsdp_plugin.emplace();
    options.fsdp_plugin->state_dict_type = StateDictType::Sharded;
    Accelerator accelerator(options);
    torch::nn::Sequential net = fsdp_net();
    Adam adam(net->parameters(), torch::optim::AdamOptions(0.01));
    auto [model, optimizer] = accelerator.prepare(net, adam);
    accelerator.save_state(folder / "parts");
    SaveStateOptions whole;
    whole.state_dict_type = StateDictType::Full;
    accelerator.save_state(folder / "whole", whole);
    accelerator.wait_for_everyone();
  });
  EXPECT_TRUE(std::filesystem::exists(folder / "parts/model_shard-00001-of-00002.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder / "parts/model.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(folder / "whole/model.safetensors"));
}

TEST(AcceleratorFsdp, IsAskedForByTheLauncher) {
  EXPECT_FALSE(fsdp_plugin_of_environment());
  const std::pair<const char*, const char*> variables[] = {{"ACCELERATE_USE_FSDP", "true"},
                                                           {"FSDP_VERSION", "2"},
                                                           {"FSDP_RESHARD_AFTER_FORWARD", "true"},
                                                           {"FSDP_TRANSFORMER_CLS_TO_WRAP", "BertLayer,Linear"},
                                                           {"FSDP_STATE_DICT_TYPE", "SHARDED_STATE_DICT"}};
  for (const auto& [name, value] : variables) ::setenv(name, value, 1);
  const auto plugin = fsdp_plugin_of_environment();
  ::setenv("FSDP_SHARDING_STRATEGY", "HYBRID_SHARD", 1);
  const auto hybrid = fsdp_plugin_of_environment();
  ::unsetenv("FSDP_SHARDING_STRATEGY");
  for (const auto& [name, value] : variables) ::unsetenv(name);
  ASSERT_TRUE(plugin);
  EXPECT_EQ(plugin->sharding_strategy, ShardingStrategy::FullShard);
  EXPECT_EQ(plugin->transformer_cls_names_to_wrap, (std::vector<std::string>{"BertLayer", "Linear"}));
  EXPECT_EQ(plugin->state_dict_type, StateDictType::Sharded);
  ASSERT_TRUE(hybrid);
  EXPECT_EQ(hybrid->sharding_strategy, ShardingStrategy::HybridShard);
}

// A model that is not shared out would train as before, in silence.
TEST(AcceleratorFsdp, RefusesModelsThatAreNotSharedOut) {
  run_ranks_as_threads(2, [](const Membership& membership) {
    AcceleratorOptions options = fsdp_options(make_communicator("tcp", membership));
    options.fsdp_plugin.emplace();
    const auto error_of = [](const std::function<void()>& body) -> std::string {
      try {
        body();
      } catch (const Error& error) {
        return error.what();
      }
      return "no error";
    };
    {
      Accelerator accelerator(options);
      torch::nn::Sequential net = fsdp_net();
      auto [model] = accelerator.prepare(net);
      const std::string error = error_of([&, &model = model] {
        accelerator.backward(model(torch::ones({2, 16})).sum());
      });
      EXPECT_NE(error.find("backward was called without a prepared optimizer"), std::string::npos) << error;
    }
    {
      Accelerator accelerator(options);
      torch::nn::Sequential net = fsdp_net(), other = fsdp_net();
      Adam adam(other->parameters(), torch::optim::AdamOptions(0.01));
      auto [model, optimizer] = accelerator.prepare(net, adam);
      const std::string error = error_of([&, &model = model] {
        accelerator.backward(model(torch::ones({2, 16})).sum());
      });
      EXPECT_NE(error.find("parameters of no prepared model"), std::string::npos) << error;
    }
    {
      Accelerator accelerator(options);
      torch::nn::Sequential net = fsdp_net(), other = fsdp_net();
      std::vector<at::Tensor> both = net->parameters();
      for (const at::Tensor& parameter : other->parameters()) both.push_back(parameter);
      Adam adam(both, torch::optim::AdamOptions(0.01));
      const std::string error = error_of([&] { accelerator.prepare(net, other, adam); });
      EXPECT_NE(error.find("parameters of several models"), std::string::npos) << error;
    }
    {
      Accelerator accelerator(options);
      torch::nn::Sequential net = fsdp_net();
      torch::optim::Adam adam(net->parameters(), torch::optim::AdamOptions(0.01));
      const std::string error = error_of([&] { accelerator.prepare(net, adam); });
      EXPECT_NE(error.find("not one of Lockstep's"), std::string::npos) << error;
    }
    {
      options.fsdp_plugin->sharding_strategy = ShardingStrategy::HybridShard;
      Accelerator accelerator(options);
      torch::nn::Sequential net = fsdp_net();
      Adam adam(net->parameters(), torch::optim::AdamOptions(0.01));
      const std::string error = error_of([&] { accelerator.prepare(net, adam); });
      EXPECT_NE(error.find("hybrid_shard would leave all weights on each"), std::string::npos) << error;
    }
    options.ddp.process_group->barrier();
  });
}

}  // namespace
}  // namespace lockstep
