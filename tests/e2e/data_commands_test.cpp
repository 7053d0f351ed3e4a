// Tests `lockstep sampler` and `lockstep data`, as a user types them.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

ProgramEnd lockstep(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), std::string(LOCKSTEP_BIN_DIR) + "/lockstep");
  return run_program(arguments);
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(SamplerCommand, PrintsOneRanksSamplesAsJson) {
  // PyTorch prints the same indices.
  const auto shuffled =
      lockstep({"sampler", "--dataset-size", "10", "--num-replicas", "4", "--rank", "3", "--epoch", "1"});
  EXPECT_EQ(shuffled.code, 0) << shuffled.err;
  EXPECT_EQ(shuffled.out, "[2, 3, 6]\n");
  const auto seeded = lockstep(
      {"sampler", "--dataset-size", "10", "--num_replicas", "3", "--rank", "2", "--epoch", "9", "--seed", "42"});
  EXPECT_EQ(seeded.out, "[7, 9, 8, 1]\n");
  const auto dropped =
      lockstep({"sampler", "--dataset-size", "5", "--num-replicas", "2", "--rank", "1", "--no-shuffle", "--drop-last"});
  EXPECT_EQ(dropped.out, "[1, 3]\n");
  const auto exact = lockstep({"sampler", "--dataset-size", "2", "--num-replicas", "4", "--rank", "3", "--exact"});
  EXPECT_EQ(exact.out, "[]\n");
}

TEST(SamplerCommand, BadNumbersAreErrors) {
  const auto rank = lockstep({"sampler", "--dataset-size", "10", "--num-replicas", "4", "--rank", "4"});
  EXPECT_NE(rank.code, 0);
  EXPECT_TRUE(has(rank.err, "Invalid rank 4, rank should be in the interval [0, 3]")) << rank.err;
  const auto empty = lockstep({"sampler", "--dataset-size", "0"});
  EXPECT_NE(empty.code, 0);
  EXPECT_TRUE(has(empty.err, "a dataset of 0 samples")) << empty.err;
  EXPECT_NE(lockstep({"sampler"}).code, 0);
}

TEST(DataCommand, MakesDigits) {
  const TemporaryFolder folder;
  const auto made = lockstep({"data", "digits", "--output", folder / "digits", "--train", "50", "--test", "20"});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_TRUE(has(made.out, "50 digits to train on and 20 to test on")) << made.out;
  EXPECT_EQ(std::filesystem::file_size(folder / "digits/train-images-idx3-ubyte"), 16U + 50 * 28 * 28);
  EXPECT_EQ(std::filesystem::file_size(folder / "digits/t10k-labels-idx1-ubyte"), 8U + 20);
  const auto other = lockstep({"data", "digits", "--output", folder / "digits", "--train", "60", "--test", "20"});
  EXPECT_NE(other.code, 0);
  EXPECT_TRUE(has(other.err, "a file with other content")) << other.err;
}

TEST(DataCommand, SaysWhyADownloadFailedAndLeavesNothing) {
  const TemporaryFolder folder;
  const auto failed =
      lockstep({"data", "get", "mnist", "--output", folder / "mnist", "--mirror", "file://" + (folder / "no")});
  EXPECT_NE(failed.code, 0);
  EXPECT_TRUE(has(failed.err, "train-images-idx3-ubyte.gz could not be downloaded")) << failed.err;
  EXPECT_TRUE(std::filesystem::is_empty(folder / "mnist"));
  EXPECT_NE(lockstep({"data", "get", "cifar"}).code, 0);
}

}  // namespace
}  // namespace lockstep
