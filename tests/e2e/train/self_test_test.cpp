// Tests `lockstep test`: real ranks, by flags and by a file that accelerate would write.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_size.h"

namespace lockstep {
namespace {

const std::string kSelfTestBin = std::string(LOCKSTEP_BIN_DIR) + "/lockstep";
constexpr const char* kSuccess = "Test is a success! You are ready for your distributed training!\n";

ProgramEnd run_self_test_command(std::vector<std::string> flags) {
  flags.insert(flags.begin(), {kSelfTestBin, "test"});
  return run_program(flags, {}, std::chrono::seconds(240));
}

bool self_test_says(const ProgramEnd& end, const std::string& part) { return end.out.find(part) != std::string::npos; }

// Seconds: two jobs by processes.
TEST(SelfTest, PassesOnTwoAndThreeRanks) {
  for (int count = 3; count >= test_size(3, 2); --count) {
    const std::string ranks = std::to_string(count);
    const ProgramEnd end = run_self_test_command({"--num-processes", ranks, "--cpu"});
    ASSERT_EQ(end.code, 0) << end.out << end.err;
    EXPECT_TRUE(self_test_says(end, "Processes: " + ranks)) << end.out;
    EXPECT_TRUE(self_test_says(end, "**Training integration test**")) << end.out;
    EXPECT_EQ(end.out.substr(end.out.size() - std::string(kSuccess).size()), kSuccess);
  }
}

TEST(SelfTest, RunsWhatTheFileAsksFor) {
  const TemporaryFolder folder;
  const std::string path = folder / "config.yaml";
  std::ofstream(path) << "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_CPU\nmixed_precision: bf16\n"
                         "num_machines: 1\nnum_processes: 2\nuse_cpu: true\n";
  const ProgramEnd end = run_self_test_command({"--config_file", path});
  ASSERT_EQ(end.code, 0) << end.out << end.err;
  EXPECT_TRUE(self_test_says(end, "Processes: 2")) << end.out;
  EXPECT_TRUE(self_test_says(end, "Mixed precision: bf16")) << end.out;
  EXPECT_TRUE(self_test_says(end, "in mixed precision")) << end.out;
  EXPECT_TRUE(self_test_says(end, kSuccess)) << end.out;
}

TEST(SelfTest, IsNoSuccessWhereNothingCanStart) {
  const ProgramEnd end = run_self_test_command({"--config-file", "/nonexistent/config.yaml"});
  EXPECT_NE(end.code, 0);
  EXPECT_FALSE(self_test_says(end, "success")) << end.out;
  EXPECT_NE(end.err.find("/nonexistent/config.yaml"), std::string::npos) << end.err;
}

}  // namespace
}  // namespace lockstep
