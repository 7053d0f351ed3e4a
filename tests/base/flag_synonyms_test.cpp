#include "lockstep/base/text/flag_synonyms.h"

#include <gtest/gtest.h>

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
