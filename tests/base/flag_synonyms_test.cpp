#include "lockstep/base/text/flag_synonyms.h"

#include <gtest/gtest.h>

#include <tuple>
#include <utility>

namespace lockstep {
namespace {

using FlagNames = std::vector<std::string>;

TEST(FlagSynonyms, OtherProgramsFlagsAreNotTheNearestName) {
  const FlagNames training{"--block-size",
                           "--per-device-train-batch-size",
                           "--per-device-eval-batch-size",
                           "--num-train-epochs",
                           "--learning-rate",
                           "--max-steps",
                           "--max-length",
                           "--output-dir",
                           "--train-file"};
  for (const auto& [typed, meant] : {std::pair("--batch-size", "--per-device-train-batch-size"),
                                     {"--per-device-batch-size", "--per-device-train-batch-size"},
                                     {"--eval-batch-size", "--per-device-eval-batch-size"},
                                     {"--epochs", "--num-train-epochs"},
                                     {"--lr", "--learning-rate"},
                                     {"--max-train-steps", "--max-steps"},
                                     {"--seq-len", "--max-length"},
                                     {"--learning-rte", "--learning-rate"}}) {
    EXPECT_EQ(suggest_flag(typed, training), "; did you mean '" + std::string(meant) + "'?") << typed;
  }
  EXPECT_EQ(suggest_flag("--batch-size", {"--block-size", "--per-device-eval-batch-size"}),
            "; did you mean '--per-device-eval-batch-size'?");
  EXPECT_EQ(suggest_flag("--bananas", training), "");
}

TEST(FlagSynonyms, FlagsWithoutACounterpartAreAnswered) {
  const FlagNames launch{"--num-processes", "--mixed-precision"}, run{"--nproc-per-node"},
      training{"--train-file", "--log-level-of-mine"};
  for (const auto& [typed, names, want] :
       {std::tuple("--multi-gpu", launch, ": leave it out: each process takes a device of its own"),
        {"--use-deepspeed", launch, ": there is no DeepSpeed here"},
        {"--zero-stage", training, ": there is no DeepSpeed here"},
        {"--fsdp-sharding-strategy", launch, ": its options are in the configuration file"},
        {"--dynamo-backend", launch, ": leave it out: it compiles Python"},
        {"--fp16", launch, ": write --mixed-precision fp16"},
        {"--use-env", run, ": leave it out: ranks always have their numbers"},
        {"--hostfile", run, ": each host starts its own launcher"},
        {"--gpu", training, ": each rank takes the GPU of its local rank"},
        {"--use-ipex", {"--train-file", "--use-cpu"}, ": leave it out: transformers 5 no longer has it"},
        {"--fsdp-min-num-params", training, ": write it in --fsdp-config"},
        {"--lora-r", training, ": all weights are trained"}}) {
    EXPECT_EQ(suggest_flag(typed, names).substr(0, std::string(want).size()), want) << typed;
  }
  // Another command's flag, and another flag.
  EXPECT_EQ(suggest_flag("--multi-gpu", run), "");
  EXPECT_EQ(suggest_flag("--use-environment", run), "");
}

TEST(FlagSynonyms, OtherProgramsAreSubcommands) {
  const FlagNames names{"run", "launch", "train", "evaluate", "predict"};
  for (const auto& [typed, want] : {std::pair("torchrun", "run"),
                                    {"accelerate", "launch"},
                                    {"finetune", "train"},
                                    {"eval", "evaluate"},
                                    {"generate", "predict"},
                                    {"trian", ""}}) {
    EXPECT_EQ(subcommand_synonym(typed, names), want) << typed;
  }
}

TEST(FlagSynonyms, NumbersOfRanksAreNamedAsByMpi) {
  const FlagNames run{"--nnodes", "--nproc-per-node", "--node-rank", "--master-addr", "--master-port"};
  for (const char* typed : {"-n", "-np", "--np", "--nproc", "--num-processes", "--gpus"}) {
    EXPECT_EQ(suggest_flag(typed, run), "; did you mean '--nproc-per-node'?") << typed;
  }
  EXPECT_EQ(suggest_flag("--port", run), "; did you mean '--master-port'?");
  EXPECT_EQ(suggest_flag("--num-gpus", {"--nodes", "--ntasks-per-node", "--gpus-per-node"}),
            "; did you mean '--gpus-per-node'?");
}

}  // namespace
}  // namespace lockstep
