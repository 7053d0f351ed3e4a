#include "lockstep/train/arguments/fsdp_arguments.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/train/arguments/environment_arguments.h"
#include "lockstep/train/training_arguments.h"
#include "tests/train/arguments/usage_refusal.h"

namespace lockstep {
namespace {

int stage_of(const std::string& fsdp, const nlohmann::json& config = nullptr) {
  TrainingArguments args;
  set_training_argument(args, "fsdp", fsdp, "args.json");
  set_training_argument(args, "fsdp_config", config, "args.json");
  return sharding_of(args, "args.json").stage();
}

TEST(FsdpArguments, SharesOutGradients) {
  EXPECT_EQ(sharding_of({}, "").stage(), 1);
  EXPECT_EQ(stage_of("no_shard"), 1);
  EXPECT_EQ(stage_of("shard_grad_op"), 2);
  EXPECT_EQ(stage_of("SHARD_GRAD_OP auto_wrap"), 2);
  EXPECT_EQ(stage_of("true", {{"reshard_after_forward", false}}), 2);
  // Options that ask for nothing, and those that make no difference.
  EXPECT_EQ(stage_of("shard_grad_op", {{"fsdp_version", 2},
                                       {"min_num_params", 0},
                                       {"backward_prefetch", "NO_PREFETCH"},
                                       {"cpu_ram_efficient_loading", false},
                                       {"state_dict_type", "FULL_STATE_DICT"},
                                       {"use_orig_params", true}}),
            2);
  TrainingArguments args;
  set_training_argument(args, "fsdp", nlohmann::json({"shard_grad_op", "auto_wrap"}), "args.json");
  EXPECT_EQ(sharding_of(args, "").stage(), 2);
  set_training_argument(args, "fsdp", nlohmann::json(nullptr), "args.json");
  EXPECT_EQ(sharding_of(args, "").stage(), 1);
}

TEST(FsdpArguments, SharesOutWeightsByUnits) {
  EXPECT_EQ(stage_of("full_shard auto_wrap"), 3);
  EXPECT_EQ(stage_of("true"), 3);
  EXPECT_EQ(stage_of("auto_wrap"), 3) << "Hugging Face's default strategy";
  EXPECT_EQ(stage_of("auto_wrap", {{"sharding_strategy", "SHARD_GRAD_OP"}}), 2);
  EXPECT_EQ(stage_of("full_shard", {{"backward_prefetch", "BACKWARD_PRE"},
                                    {"forward_prefetch", true},
                                    {"limit_all_gathers", "true"},
                                    {"auto_wrap_policy", "TRANSFORMER_BASED_WRAP"}}),
            3);
  TrainingArguments args;
  args.fsdp = std::vector<std::string>{"full_shard"};
  const nlohmann::json config{{"fsdp_transformer_layer_cls_to_wrap", "BertLayer,Linear"},
                              {"min_num_params", 1000},
                              {"reshard_after_forward", false}};
  set_training_argument(args, "fsdp_config", config, "args.json");
  const Sharding sharding = sharding_of(args, "");
  EXPECT_EQ(sharding.stage(), 3);
  EXPECT_EQ(sharding.unit_types, (std::vector<std::string>{"BertLayer", "Linear"}));
  EXPECT_EQ(sharding.unit_min_params, 1000);
  EXPECT_FALSE(sharding.reshard_after_forward);
}

// accelerate's configurations of FSDP1 have the strategy in fsdp_config, under either of two names, or by its number.
TEST(FsdpArguments, ConfigMayNameTheStrategy) {
  EXPECT_EQ(stage_of("true", {{"fsdp_reshard_after_forward", "FULL_SHARD"}}), 3);
  EXPECT_EQ(stage_of("true", {{"fsdp_reshard_after_forward", "true"}}), 3);
  EXPECT_EQ(stage_of("true", {{"fsdp_reshard_after_forward", "false"}}), 2);
  EXPECT_EQ(stage_of("true", {{"reshard_after_forward", "SHARD_GRAD_OP"}}), 2);
  EXPECT_EQ(stage_of("true", {{"fsdp_sharding_strategy", "NO_SHARD"}}), 1);
  EXPECT_EQ(stage_of("true", {{"fsdp_sharding_strategy", 1}}), 3);
  EXPECT_EQ(stage_of("full_shard", {{"fsdp_sharding_strategy", "1"}}), 3);
  const auto refusal = [](const std::string& fsdp, const nlohmann::json& config) {
    return refusal_of([&] { stage_of(fsdp, config); });
  };
  EXPECT_NE(refusal("full_shard", {{"fsdp_sharding_strategy", "SHARD_GRAD_OP"}}).find("two strategies"),
            std::string::npos);
  EXPECT_NE(refusal("true", {{"fsdp_sharding_strategy", 2}, {"reshard_after_forward", "FULL_SHARD"}}).find("two strat"),
            std::string::npos);
  EXPECT_NE(refusal("true", {{"reshard_after_forward", "HYBRID"}}).find("not a strategy of FSDP"), std::string::npos);
  EXPECT_NE(refusal("true", {{"fsdp_sharding_strategy", 6}}).find("not a strategy of FSDP"), std::string::npos);
}

// Hugging Face's Trainer passes over it in silence.
TEST(FsdpArguments, AStrategyInTheConfigNeedsFsdp) {
  const auto refusal = [](const nlohmann::json& config, const nlohmann::json& fsdp = nullptr) {
    TrainingArguments args;
    set_training_argument(args, "fsdp", fsdp, "args.json");
    set_training_argument(args, "fsdp_config", config, "args.json");
    return refusal_of([&] { sharding_of(args, "args.json"); });
  };
  EXPECT_NE(refusal({{"fsdp_sharding_strategy", "FULL_SHARD"}})
                .find("fsdp_config: fsdp_sharding_strategy full_shard: nothing is sharded without fsdp"),
            std::string::npos);
  EXPECT_NE(refusal({{"reshard_after_forward", true}}).find("reshard_after_forward true"), std::string::npos);
  EXPECT_NE(refusal({{"reshard_after_forward", false}}, "").find("write fsdp: true"), std::string::npos);
  EXPECT_EQ(refusal({{"sharding_strategy", "NO_SHARD"}}), "no UsageError");
  EXPECT_EQ(refusal({{"reshard_after_forward", "HYBRID_SHARD"}}, false), "no UsageError");
}

TEST(FsdpArguments, HybridShardHasAReplicaOfTheWeightsOnEachHost) {
  const auto sharding = [](const std::string& fsdp, const nlohmann::json& config) {
    TrainingArguments args;
    set_training_argument(args, "fsdp", nlohmann::json({fsdp, "auto_wrap"}), "args.json");
    set_training_argument(args, "fsdp_config", config, "args.json");
    return sharding_of(args, "args.json");
  };
  const nlohmann::json units{{"transformer_layer_cls_to_wrap", {"BertLayer"}}, {"backward_prefetch", "BACKWARD_PRE"}};
  for (const char* word : {"hybrid_shard", "HYBRID_SHARD", "hybrid_shard_zero2"}) {
    const Sharding hybrid = sharding(word, units);
    EXPECT_TRUE(is_hybrid(hybrid.sharding_strategy)) << word;
    EXPECT_EQ(hybrid.stage(), 2) << word;
    EXPECT_EQ(hybrid.unit_types, std::vector<std::string>{"BertLayer"}) << word;
  }
  EXPECT_TRUE(is_hybrid(sharding("true", {{"fsdp_sharding_strategy", "HYBRID_SHARD_ZERO2"}}).sharding_strategy));
  EXPECT_TRUE(is_hybrid(sharding("true", {{"fsdp_reshard_after_forward", 4}}).sharding_strategy));
  EXPECT_FALSE(is_hybrid(sharding("shard_grad_op", nullptr).sharding_strategy));
}

// As launchers hand on a configuration file; what a program gives itself wins.
TEST(FsdpArguments, MayBeAskedForByTheLauncher) {
  const auto asked = [](const std::vector<std::pair<const char*, const char*>>& variables,
                        const TrainingArguments& arguments = {}) {
    for (const auto& [name, value] : variables) ::setenv(name, value, 1);
    std::string error;
    Sharding sharding;
    try {
      sharding = sharding_of(arguments, "program");
    } catch (const Error& refused) {
      error = refused.what();
    }
    for (const auto& [name, value] : variables) ::unsetenv(name);
    return std::make_pair(sharding, error);
  };
  using Variables = std::vector<std::pair<const char*, const char*>>;
  const Variables hybrid{{"ACCELERATE_USE_FSDP", "true"},
                         {"FSDP_VERSION", "1"},
                         {"FSDP_RESHARD_AFTER_FORWARD", "HYBRID_SHARD"},
                         {"FSDP_TRANSFORMER_CLS_TO_WRAP", "BertLayer"},
                         {"FSDP_MIN_NUM_PARAMS", "0"},
                         {"FSDP_STATE_DICT_TYPE", "SHARDED_STATE_DICT"}};
  const Sharding sharding = asked(hybrid).first;
  EXPECT_TRUE(is_hybrid(sharding.sharding_strategy));
  EXPECT_TRUE(sharding.saves_shards);
  EXPECT_EQ(sharding.unit_types, std::vector<std::string>{"BertLayer"});
  // accelerate's launcher hands on FSDP1's default strategy with FSDP2, too.
  Variables second{{"ACCELERATE_USE_FSDP", "true"},
                   {"FSDP_VERSION", "2"},
                   {"FSDP_SHARDING_STRATEGY", "FULL_SHARD"},
                   {"FSDP_RESHARD_AFTER_FORWARD", "false"}};
  EXPECT_EQ(asked(second).first.stage(), 2);
  second.back().second = "true";
  EXPECT_EQ(asked(second).first.stage(), 3);
  second[2].second = "HYBRID_SHARD";
  EXPECT_TRUE(is_hybrid(asked(second).first.sharding_strategy));
  TrainingArguments own;
  own.fsdp = std::vector<std::string>{"no_shard"};
  EXPECT_EQ(asked(hybrid, own).first.stage(), 1);
  EXPECT_EQ(asked({{"FSDP_VERSION", "1"}}).first.stage(), 1) << "nobody asks for FSDP";
  Variables offload = hybrid;
  offload.emplace_back("FSDP_OFFLOAD_PARAMS", "true");
  EXPECT_NE(asked(offload).second.find("variables of ACCELERATE_USE_FSDP"), std::string::npos) << asked(offload).second;
}

TEST(FsdpArguments, OfTheEnvironmentAreWrittenIntoThem) {
  const std::pair<const char*, const char*> variables[] = {
      {"ACCELERATE_USE_FSDP", "true"}, {"FSDP_VERSION", "2"}, {"FSDP_RESHARD_AFTER_FORWARD", "false"}};
  for (const auto& [name, value] : variables) ::setenv(name, value, 1);
  TrainingArguments asked, own;
  own.fsdp = std::vector<std::string>{"no_shard"};
  adopt_environment(asked);
  adopt_environment(own);
  for (const auto& [name, value] : variables) ::unsetenv(name);
  EXPECT_EQ(to_json(asked).at("fsdp"), nlohmann::json({"true"}));
  EXPECT_EQ(sharding_of(asked, "program").stage(), 2);
  EXPECT_EQ(sharding_of(own, "program").stage(), 1);
  EXPECT_TRUE(own.fsdp_config.is_null());
}

TEST(FsdpArguments, SaysWhetherEachRankSavesAPartOfTheWeights) {
  const auto saves_shards = [](const nlohmann::json& config) {
    TrainingArguments args;
    set_training_argument(args, "fsdp_config", config, "args.json");
    return sharding_of(args, "args.json").saves_shards;
  };
  EXPECT_FALSE(sharding_of({}, "").saves_shards);
  EXPECT_FALSE(saves_shards({{"fsdp_version", 2}}));
  EXPECT_FALSE(saves_shards({{"state_dict_type", "FULL_STATE_DICT"}}));
  EXPECT_TRUE(saves_shards({{"state_dict_type", "SHARDED_STATE_DICT"}}));
  EXPECT_TRUE(saves_shards({{"fsdp_state_dict_type", "sharded_state_dict"}}));
}

TEST(FsdpArguments, OtherWaysAreRefusedWithTheReason) {
  const auto refusal = [](const std::string& fsdp, const nlohmann::json& config = nullptr) {
    return refusal_of([&] { stage_of(fsdp, config); });
  };
  EXPECT_NE(refusal("full_shard", {{"backward_prefetch", "BACKWARD_POST"}}).find("backward_pre"), std::string::npos);
  EXPECT_NE(refusal("full_shard", {{"transformer_layer_cls_to_wrap", 3}}).find("must be a list of names"),
            std::string::npos);
  EXPECT_NE(refusal("full_shard", {{"cpu_offload", true}}).find("stay on the model's device"), std::string::npos);
  EXPECT_NE(refusal("hybrid_shard_zero").find("did you mean 'hybrid_shard'"), std::string::npos);
  EXPECT_NE(refusal("full_shard hybrid_shard").find("two strategies"), std::string::npos);
  EXPECT_NE(refusal("shard_grad_op offload").find("stay on the model's device"), std::string::npos);
  EXPECT_NE(refusal("shard_grad").find("did you mean 'shard_grad_op'"), std::string::npos);
  EXPECT_NE(refusal("shard_grad_op", {{"transformer_layer_cls_to_wrap", {"BertLayer"}}}).find("ddp_bucket_cap_mb"),
            std::string::npos);
  EXPECT_NE(refusal("shard_grad_op", {{"fsdp_state_dict_type", "LOCAL_STATE_DICT"}}).find("the same number of ranks"),
            std::string::npos);
  EXPECT_NE(refusal("shard_grad_op", {{"state_dict_type", "WHOLE"}}).find("not a type of state dict"),
            std::string::npos);
  EXPECT_NE(refusal("shard_grad_op", {{"bananas", 1}}).find("has no such option"), std::string::npos);
  TrainingArguments args;
  args.fsdp = std::vector<std::string>{"shard_grad_op"};
  args.fuse = false;
  EXPECT_NE(refusal_of([&] { check_training_arguments(args, "program"); }).find("with fuse false"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
