// Tests that `lockstep config` writes what Accelerate would, and that `lockstep launch` follows it.
#include "tests/e2e/launch.h"

namespace lockstep {
namespace {

class LaunchByConfig : public ::testing::Test {
 protected:
  LaunchByConfig() {
    for (const char* name : {"MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS", "ACCELERATE_MIXED_PRECISION"}) {
      changes_[name] = {};
    }
    changes_["HF_HOME"] = folder_.path();
  }
  ProgramEnd lockstep(const std::string& words) const {
    return run_program(shell(kBin + "/lockstep " + words), changes_);
  }

  TemporaryFolder folder_;
  Changes changes_;
};

TEST_F(LaunchByConfig, RunsAsManyRanksAsWereAnsweredFor) {
  const ProgramEnd asked =
      run_program(shell("printf '0\\n1\\n1\\nno\\nno\\nno\\n3\\nbf16\\n' | " + kBin + "/lockstep config"), changes_);
  EXPECT_EQ(asked.code, 0) << asked.err;
  const std::string file = folder_.path() + "/accelerate/default_config.yaml";
  EXPECT_TRUE(has(asked.out, "accelerate configuration saved at " + file)) << asked.out;
  EXPECT_TRUE(has(content(file), "distributed_type: MULTI_CPU\n")) << content(file);

  const ProgramEnd ran =
      lockstep("launch sh -c 'echo rank=$RANK of=$WORLD_SIZE $ACCELERATE_MIXED_PRECISION gpu=[$CUDA_VISIBLE_DEVICES]'");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(sorted_lines(ran.out),
            (Words{"rank=0 of=3 bf16 gpu=[]", "rank=1 of=3 bf16 gpu=[]", "rank=2 of=3 bf16 gpu=[]"}));

  const ProgramEnd shown = lockstep("launch --show_config --max_restarts 2");
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_TRUE(std::regex_search(shown.out, std::regex("num_processes +3 +file\n"))) << shown.out;
  EXPECT_TRUE(std::regex_search(shown.out, std::regex("max_restarts +2 +flag\n"))) << shown.out;
  EXPECT_TRUE(std::regex_search(shown.out, std::regex("rdzv_backend +static +file\n"))) << shown.out;
}

TEST_F(LaunchByConfig, SaysWhatItFoundOut) {
  const ProgramEnd alone = lockstep("launch --cpu echo hello");
  EXPECT_EQ(alone.code, 0) << alone.err;
  EXPECT_EQ(alone.out, "hello\n");
  EXPECT_TRUE(has(alone.err, "`--num-processes` was not given; it is 1")) << alone.err;
}

}  // namespace
}  // namespace lockstep
