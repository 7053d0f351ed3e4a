// Tests checkpoints that ranks write in parts, and `lockstep merge-weights`: real trainings.
#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/base/files/atomic_file.h"
#include "tests/commands/run_command.h"
#include "tests/e2e/train/review_classification.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

ProgramEnd train_on_two(const std::string& output, const std::string& state_dict_type) {
  const auto words = review_classification(
      output, {"--max-train-samples", "64", "--max-length", "32", "--max-steps", "3", "--save-steps", "3", "--seed",
               "5", "--fsdp", "shard_grad_op", "--fsdp-config", "{\"state_dict_type\": \"" + state_dict_type + "\"}"});
  return run_program(on_two_ranks(words), {}, std::chrono::seconds(240));
}

class MergeCommand : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder();
    const ProgramEnd whole = train_on_two(*folder_ / "whole", "FULL_STATE_DICT");
    ASSERT_EQ(whole.code, 0) << whole.err;
    const ProgramEnd parts = train_on_two(*folder_ / "parts", "SHARDED_STATE_DICT");
    ASSERT_EQ(parts.code, 0) << parts.err;
  }
  static void TearDownTestSuite() { delete folder_; }

  static std::string at(const std::string& name) { return *folder_ / name; }
  static ProgramEnd merge(std::vector<std::string> words) {
    words.insert(words.begin(), "merge-weights");
    return run_command(words);
  }

  static TemporaryFolder* folder_;
};
TemporaryFolder* MergeCommand::folder_ = nullptr;

TEST_F(MergeCommand, WritesTheBytesOfAnUnshardedSaveAndAModelThatPredicts) {
  const ProgramEnd end = merge({at("parts/checkpoint-3"), at("merged")});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_NE(end.out.find("merged/model.safetensors: "), std::string::npos) << end.out;
  EXPECT_EQ(read_file(at("merged/model.safetensors")), read_file(at("whole/checkpoint-3/model.safetensors")));
  EXPECT_FALSE(std::filesystem::exists(at("merged/scheduler.json")));
  const ProgramEnd said = run_command({"predict", "--model", at("merged")}, "The fish came crisp and hot.\n");
  EXPECT_EQ(said.code, 0) << said.err;
  const ProgramEnd again = merge({at("whole/checkpoint-3"), at("copied")});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(read_file(at("copied/model.safetensors")), read_file(at("whole/checkpoint-3/model.safetensors")));
}

TEST_F(MergeCommand, IsWhatAnErrorAdvisesForAModelInParts) {
  const ProgramEnd said =
      run_command({"predict", "--model", at("parts/checkpoint-3")}, "The fish came crisp and hot.\n");
  EXPECT_NE(said.code, 0);
  EXPECT_NE(said.err.find("lockstep merge-weights " + at("parts/checkpoint-3")), std::string::npos) << said.err;
}

TEST_F(MergeCommand, RemovesTheCheckpointOnlyIfAskedAndOnlyAfterAWholeMerge) {
  std::filesystem::copy(at("parts/checkpoint-3"), at("copy"), std::filesystem::copy_options::recursive);
  const std::string shard = at("copy/model_shard-00002-of-00002.safetensors");
  const std::string bytes = read_file(shard);
  std::filesystem::resize_file(shard, bytes.size() - 4);
  const ProgramEnd refused = merge({at("copy"), at("of-damaged"), "--remove_checkpoint_dir"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.err.find("model_shard-00002-of-00002.safetensors has "), std::string::npos) << refused.err;
  EXPECT_FALSE(std::filesystem::exists(at("of-damaged/model.safetensors")));
  EXPECT_TRUE(std::filesystem::exists(at("copy")));
  write_file_atomically(shard, bytes);
  EXPECT_EQ(merge({at("copy"), at("kept")}).code, 0);
  EXPECT_TRUE(std::filesystem::exists(at("copy")));
  EXPECT_EQ(merge({at("copy"), at("moved"), "--remove-checkpoint-dir"}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(at("copy")));
  EXPECT_EQ(read_file(at("moved/model.safetensors")), read_file(at("kept/model.safetensors")));
}

TEST_F(MergeCommand, RemovesWhatALinkRefersTo) {
  std::filesystem::copy(at("parts/checkpoint-3"), at("target"), std::filesystem::copy_options::recursive);
  std::filesystem::create_directory_symlink(at("target"), at("link"));
  EXPECT_EQ(merge({at("link"), at("of-link"), "--remove-checkpoint-dir"}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(at("target")));
}

// The name of a new folder, given in the checkpoint's: what was merged would be removed with the checkpoint.
TEST_F(MergeCommand, RefusesAFolderInTheCheckpointByItsNameAlone) {
  std::filesystem::copy(at("parts/checkpoint-3"), at("here"), std::filesystem::copy_options::recursive);
  const ProgramEnd end = run_program(
      {"sh", "-c",
       "cd " + at("here") + " && " LOCKSTEP_BIN_DIR "/lockstep merge-weights . merged --remove-checkpoint-dir"},
      {}, std::chrono::seconds(60));
  EXPECT_NE(end.code, 0);
  EXPECT_NE(end.err.find("merged is in the checkpoint"), std::string::npos) << end.err;
  EXPECT_TRUE(std::filesystem::exists(at("here/manifest.json")));
}

TEST_F(MergeCommand, RefusesPickledFilesFoldersInTheCheckpointAndFoldersThatAreNone) {
  const auto refusal = [](const std::vector<std::string>& words) {
    const ProgramEnd end = merge(words);
    EXPECT_NE(end.code, 0);
    EXPECT_NE(end.err.find("fix: "), std::string::npos) << end.err;
    return end.err;
  };
  EXPECT_NE(refusal({at("parts/checkpoint-3"), at("x"), "--unsafe_serialization"}).find("pytorch_model.bin"),
            std::string::npos);
  EXPECT_NE(refusal({at("parts/checkpoint-3"), at("parts/checkpoint-3")}).find("is in the checkpoint"),
            std::string::npos);
  EXPECT_NE(refusal({at("nothing"), at("x")}).find("there is no folder"), std::string::npos);
  EXPECT_NE(refusal({at("parts"), at("x")}).find("name a checkpoint in it, such as " + at("parts/checkpoint-3")),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep
