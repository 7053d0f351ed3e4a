// Tests `lockstep sampler`, `lockstep data` and `lockstep model`.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include "tests/commands/run_command.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

TEST(SamplerCommand, PrintsOneRanksSamplesAsJson) {
  // PyTorch prints the same indices.
  const auto shuffled =
      run_command({"sampler", "--dataset-size", "10", "--num-replicas", "4", "--rank", "3", "--epoch", "1"});
  EXPECT_EQ(shuffled.code, 0) << shuffled.err;
  EXPECT_EQ(shuffled.out, "[2, 3, 6]\n");
  const auto seeded = run_command(
      {"sampler", "--dataset-size", "10", "--num_replicas", "3", "--rank", "2", "--epoch", "9", "--seed", "42"});
  EXPECT_EQ(seeded.out, "[7, 9, 8, 1]\n");
  const auto dropped = run_command(
      {"sampler", "--dataset-size", "5", "--num-replicas", "2", "--rank", "1", "--no-shuffle", "--drop-last"});
  EXPECT_EQ(dropped.out, "[1, 3]\n");
  const auto exact = run_command({"sampler", "--dataset-size", "2", "--num-replicas", "4", "--rank", "3", "--exact"});
  EXPECT_EQ(exact.out, "[]\n");
}

TEST(SamplerCommand, BadNumbersAreErrors) {
  const auto rank = run_command({"sampler", "--dataset-size", "10", "--num-replicas", "4", "--rank", "4"});
  EXPECT_NE(rank.code, 0);
  EXPECT_TRUE(says(rank.err, "Invalid rank 4, rank should be in the interval [0, 3]")) << rank.err;
  const auto empty = run_command({"sampler", "--dataset-size", "0"});
  EXPECT_NE(empty.code, 0);
  EXPECT_TRUE(says(empty.err, "a dataset of 0 samples")) << empty.err;
  EXPECT_NE(run_command({"sampler"}).code, 0);
}

TEST(DataCommand, MakesDigits) {
  const TemporaryFolder folder;
  const auto made = run_command({"data", "digits", "--output", folder / "digits", "--train", "50", "--test", "20"});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_TRUE(says(made.out, "50 digits for training and 20 for testing")) << made.out;
  EXPECT_EQ(std::filesystem::file_size(folder / "digits/train-images-idx3-ubyte"), 16U + 50 * 28 * 28);
  EXPECT_EQ(std::filesystem::file_size(folder / "digits/t10k-labels-idx1-ubyte"), 8U + 20);
  const auto other = run_command({"data", "digits", "--output", folder / "digits", "--train", "60", "--test", "20"});
  EXPECT_NE(other.code, 0);
  EXPECT_TRUE(says(other.err, "a file with other content")) << other.err;
}

TEST(DataCommand, SaysWhyADownloadFailedAndLeavesNothing) {
  const TemporaryFolder folder;
  const auto failed =
      run_command({"data", "get", "mnist", "--output", folder / "mnist", "--mirror", "file://" + (folder / "no")});
  EXPECT_NE(failed.code, 0);
  EXPECT_TRUE(says(failed.err, "train-images-idx3-ubyte.gz could not be downloaded")) << failed.err;
  EXPECT_TRUE(std::filesystem::is_empty(folder / "mnist"));
  EXPECT_NE(run_command({"data", "get", "cifar"}).code, 0);
}

// tests/hub/hub_test.cpp has the ways in which a download goes wrong.
TEST(ModelCommand, GetsAModelThatTrainCanName) {
  if (std::system("curl --version >/dev/null 2>&1 && python3 --version >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "no curl or no python3";
  }
  const TemporaryFolder hub;
  const TemporaryFolder folder;
  const auto add = [&](const std::string& path, const std::string& content) {
    std::filesystem::create_directories(std::filesystem::path(hub / path).parent_path());
    std::ofstream(hub / path) << content;
  };
  add("owner/small/config.json", R"({"model_type":"bert"})");
  add("owner/small/model.safetensors", std::string(4000, 'w'));
  add("owner/falcon/config.json", R"({"model_type":"falcon"})");
  add("owner/falcon/model.safetensors", "");
  RunningProgram server({"python3", std::string(LOCKSTEP_SOURCE_DIR) + "/tests/hub/hub_server.py", hub.path()});
  ASSERT_TRUE(server.wait_for(".\n", Deadline::after(std::chrono::seconds(60)))) << server.err();
  const std::string port = server.out().substr(5, server.out().find('.') - 5);
  const std::map<std::string, std::optional<std::string>> variables{{"HF_ENDPOINT", "http://127.0.0.1:" + port},
                                                                    {"HF_HOME", folder / "hf"},
                                                                    {"HF_TOKEN", {}},
                                                                    {"HF_HUB_OFFLINE", {}},
                                                                    {"HF_HUB_CACHE", {}}};

  const std::string target = folder / "small";
  const auto got = run_command({"model", "get", "owner/small", "--output", target}, "", variables);
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_TRUE(says(got.out, "model.safetensors: downloaded, 4.0 kB, SHA-256 as on the Hub")) << got.out;
  EXPECT_TRUE(says(got.out, "2 files, 4.0 kB, in " + target)) << got.out;
  EXPECT_EQ(std::filesystem::file_size(target + "/model.safetensors"), 4000U);

  const auto other = run_command({"model", "get", "owner/falcon", "--output", folder / "falcon"}, "", variables);
  EXPECT_EQ(other.code, 1);
  EXPECT_TRUE(says(other.err, "\"model_type\" is \"falcon\", for which there is no such model")) << other.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "falcon/model.safetensors"));

  const auto misspelt = run_command({"model", "get", "owner/smal", "--output", folder / "smal"}, "", variables);
  EXPECT_EQ(misspelt.code, 1);
  EXPECT_TRUE(says(misspelt.err, "has no public model owner/smal")) << misspelt.err;
  const auto path = run_command({"model", "get", "../etc"}, "", variables);
  EXPECT_EQ(path.code, 2);
}

TEST(ModelCommand, IsOfferedWhereAModelsFolderIsMissing) {
  const std::vector<CommandWords> commands{
      {"train", "--task", "text-classification", "--model", "org/no-such", "--train-file", kShipped + "reviews.csv"},
      {"train", "--task", "text-classification", "--model", "org/no-such", "--tokenizer", kShipped + "reviews-vocab",
       "--train-file", kShipped + "reviews.csv", "--label-column", "division"},
      {"predict", "--model", "org/no-such"},
      {"tokenize", "--tokenizer", "org/no-such"}};
  for (const auto& command : commands) {
    const auto end = run_command(command);
    EXPECT_TRUE(says(end.err, "a path counts from the current folder, /")) << command[0] << end.err;
    EXPECT_TRUE(says(end.err, "`lockstep model get org/no-such` downloads it")) << command[0] << end.err;
  }
  const auto random =
      run_command({"train", "--task", "text-classification", "--model", "bert-tiny", "--train-file", "x"});
  EXPECT_FALSE(says(random.err, "lockstep model get")) << random.err;
}

}  // namespace
}  // namespace lockstep
