// Tests that ranks whose communication hooks, joins, or averages in some steps alone, have other settings are told so:
// their messages have one shape, and would make weights of nothing.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/parallel/local_sgd.h"
#include "lockstep/parallel/power_sgd_hook.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

void register_hook_on(const Group& group, std::unique_ptr<CommunicationHook> hook) {
  torch::nn::Linear model = make_linear(4, 4);
  DistributedDataParallel ddp(model, fuse_on(group));
  ddp.register_comm_hook(std::move(hook));
}

std::vector<at::Tensor> ones_of_settings() { return {torch::ones({4})}; }

TEST(HookSettings, OtherSettingsOnOneRankAreNamed) {
  using Use = std::function<void(const Group&, bool is_other)>;
  const std::vector<std::pair<const char*, Use>> uses{
      {"the communication hook: rank 0 has a ",
       [](const Group& group, bool other) {
         register_hook_on(group, other ? bf16_compress_hook() : int8_compress_hook());
       }},
      {"power_sgd_hook: rank 0 has random_seed 0, rank 1 has random_seed 1",
       [](const Group& group, bool other) {
         PowerSGDOptions options;
         options.random_seed = other ? 1 : 0;
         register_hook_on(group, power_sgd_hook(options));
       }},
      {"post_local_sgd_hook: rank 0 has start_localSGD_iter 1000, rank 1 has start_localSGD_iter 7",
       [](const Group& group, bool other) {
         PostLocalSGDOptions options;
         if (other) options.start_localSGD_iter = 7;
         register_hook_on(group, post_local_sgd_hook(options));
       }},
      {"PeriodicModelAverager: rank 0 has period 2, rank 1 has period 3",
       [](const Group& group, bool other) {
         PeriodicModelAverager averager(other ? 3 : 2, 1, group);
         for (int step = 0; step < 8; ++step) averager.average_parameters(ones_of_settings());
       }},
      {"PeriodicModelAverager: rank 0 has 2 steps before this average, rank 1 has 1 steps before this average",
       [](const Group& group, bool other) {
         PeriodicModelAverager averager(1, 1, group);
         if (!other) averager.load_state_dict("2");
         for (int step = 0; step < 2; ++step) averager.average_parameters(ones_of_settings());
       }},
      {"join: rank 0 has divide_by_initial_world_size true, rank 1 has divide_by_initial_world_size false",
       [](const Group& group, bool other) {
         torch::nn::Linear model = make_linear(4, 4);
         DistributedDataParallel ddp(model, fuse_on(group));
         JoinOptions options;
         options.divide_by_initial_world_size = !other;
         ddp.join([] {}, options);
       }},
      {"DiLoCo: rank 0 has outer_lr 0.7, rank 1 has outer_lr 0.5", [](const Group& group, bool other) {
         DiLoCoOptions options;
         options.outer_lr = other ? 0.5 : 0.7;
         DiLoCo outer(ones_of_settings(), options, group);
       }}};
  for (const auto& [named, use] : uses) {
    SCOPED_TRACE(named);
    fuse_ranks("thread", 2, [&, use = use, named = named](const Group& group) {
      const std::string text = fuse_error([&] { use(group, group->rank() == 1); });
      EXPECT_NE(text.find("the ranks disagree on " + std::string(named)), std::string::npos) << text;
    });
  }
}

}  // namespace
}  // namespace lockstep
