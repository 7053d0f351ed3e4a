// Tests `lockstep train --virtual-shards`: real processes on 1, 2 and 3 ranks write the same weights, also if a
// training is stopped and continued on another number of ranks.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lockstep/base/files/atomic_file.h"
#include "tests/e2e/train/review_classification.h"
#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_size.h"

namespace lockstep {
namespace {

ProgramEnd train_shards(int ranks, const std::string& output, const std::vector<std::string>& more) {
  std::vector<std::string> words = review_classification(
      output, {"--virtual-shards", "6", "--per-device-train-batch-size", "4", "--max-length", "32",
               "--max-train-samples", "120", "--lr-scheduler-type", "constant", "--save-steps", "2"});
  words.insert(words.end(), more.begin(), more.end());
  const std::string command = std::string(LOCKSTEP_BIN_DIR) + "/lockstep";
  words.insert(words.begin(), {command, "run", "--nproc-per-node", std::to_string(ranks)});
  return run_program(words, {}, std::chrono::seconds(300));
}

std::string weights_in(const std::string& output, int step) {
  return read_file(output + "/checkpoint-" + std::to_string(step) + "/model.safetensors");
}

// Seconds: two trainings by processes, of one and of three ranks.
TEST(VirtualShardsCommand, WritesTheSameWeightsOnAnyNumberOfRanks) {
  const TemporaryFolder folder;
  const std::string alone = folder / "alone";
  const ProgramEnd first = train_shards(1, alone, {"--max-steps", "6"});
  ASSERT_EQ(first.code, 0) << first.out << first.err;
  EXPECT_NE(first.out.find("6 virtual shards on 1 rank"), std::string::npos) << first.out;
  EXPECT_NE(first.out.find("4 per shard x 6 virtual shards = 24 samples"), std::string::npos) << first.out;
  for (int ranks = 3; ranks >= test_size(3, 2); --ranks) {
    const std::string output = folder / (std::to_string(ranks) + "-ranks");
    const ProgramEnd end = train_shards(ranks, output, {"--max-steps", "6"});
    ASSERT_EQ(end.code, 0) << end.out << end.err;
    EXPECT_NE(end.out.find("fused update with shared weights"), std::string::npos) << end.out;
    EXPECT_TRUE(weights_in(output, 6) == weights_in(alone, 6)) << ranks << " ranks";
  }

  const std::string moved = folder / "moved";
  int step = 0;
  const std::vector<int> all{2, 1, 3};
  for (const int ranks : std::vector<int>(all.begin(), test_size(all.begin() + 2, all.end()))) {
    step += 2;
    const ProgramEnd end =
        train_shards(ranks, moved, {"--max-steps", std::to_string(step), "--resume-from-checkpoint", "true"});
    ASSERT_EQ(end.code, 0) << end.out << end.err;
    EXPECT_EQ(end.out.find("bit for bit"), std::string::npos) << end.out;
    EXPECT_TRUE(weights_in(moved, step) == weights_in(alone, step)) << "step " << step << " on " << ranks << " ranks";
  }
}

// A rank that had met the others first would be started again.
TEST(VirtualShardsCommand, RefusesFewerShardsThanRanksBeforeTheRanksMeet) {
  const TemporaryFolder folder;
  const ProgramEnd end = run_program({std::string(LOCKSTEP_BIN_DIR) + "/lockstep", "run", "--nproc-per-node", "2",
                                      "--max-restarts", "3", std::string(LOCKSTEP_BIN_DIR) + "/lockstep", "train",
                                      "--task", "text-classification", "--model", "bert-tiny", "--train-file",
                                      folder / "is not read", "--output-dir", folder / "out", "--virtual-shards", "1"});
  EXPECT_EQ(end.code, 1);
  EXPECT_NE(end.err.find("virtual_shards 1 is too small for 2 ranks"), std::string::npos) << end.err;
  EXPECT_NE(end.err.find("It refused what it was started with, and would refuse it again"), std::string::npos)
      << end.err;
  EXPECT_EQ(end.err.find("started again"), std::string::npos) << end.err;
}

}  // namespace
}  // namespace lockstep
