// Tests `lockstep verify`: its verdict, its exit code, and what it refuses.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/commands/run_command.h"
#include "tests/e2e/train/review_classification.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

class VerifyCommand : public ::testing::Test {
 protected:
  ProgramEnd verify(std::vector<std::string> flags) {
    flags.insert(flags.begin(), "verify");
    return run_command(flags);
  }

  TemporaryFolder folder_;
};

TEST_F(VerifyCommand, FindsRanksEqualToOneAndSaysSo) {
  const std::string digits = folder_ / "digits";
  run_well({"data", "digits", "--output", digits, "--train", "64", "--test", "10"});
  const ProgramEnd end = verify({"--model", "convnet", "--ranks", "3", "--batch", "32", "--data", digits});
  EXPECT_EQ(end.code, 0) << end.err << end.out;
  EXPECT_TRUE(says(end.out, "layer1.0.weight")) << end.out;
  EXPECT_TRUE(says(end.out, ": equal")) << end.out;
  const ProgramEnd too_many = verify({"--batch", "32", "--steps", "3", "--data", digits});
  EXPECT_EQ(too_many.code, 1);
  EXPECT_TRUE(says(too_many.err, "step 3 of 32 samples needs more samples than the 64 available")) << too_many.err;
}

TEST_F(VerifyCommand, TrainsOnRealTexts) {
  const std::string data = std::string(LOCKSTEP_SOURCE_DIR) + "/data";
  const std::vector<std::string> reviews{"--model", "bert-tiny", "--data",      data + "/reviews.csv",
                                         "--text",  "review",    "--label",     "stars",
                                         "--seq",   "24",        "--tokenizer", data + "/reviews-vocab"};
  std::vector<std::string> flags = reviews;
  flags.insert(flags.end(), {"--batch", "6", "--ranks", "3", "--dtype", "double", "--tolerance", "1e-9"});
  const ProgramEnd end = verify(flags);
  EXPECT_EQ(end.code, 0) << end.err << end.out;
  EXPECT_TRUE(says(end.out, "classifier.weight")) << end.out;
  EXPECT_TRUE(says(end.out, "[5, 128]")) << "one row for each number of stars\n" << end.out;
  flags = reviews;
  flags.resize(flags.size() - 2);
  const ProgramEnd no_tokenizer = verify(flags);
  EXPECT_EQ(no_tokenizer.code, 2);
  EXPECT_TRUE(says(no_tokenizer.err, "name its folder with --tokenizer")) << no_tokenizer.err;
  EXPECT_EQ(verify({"--model", "convnet", "--tokenizer", data + "/reviews-vocab"}).code, 2);
}

TEST_F(VerifyCommand, TakesTheFolderOfATrainedModel) {
  const std::string data = std::string(LOCKSTEP_SOURCE_DIR) + "/data";
  const std::string trained = folder_ / "trained";
  run_well(without_program(
      review_classification(trained, {"--max-length", "24", "--max-train-samples", "32", "--max-steps", "2"})));
  const ProgramEnd end =
      verify({"--model", trained, "--data", data + "/reviews-test.csv", "--label", "division", "--seq", "24", "--batch",
              "7", "--ranks", "3", "--dtype", "double", "--tolerance", "1e-9"});
  EXPECT_EQ(end.code, 0) << end.err << end.out;
  EXPECT_TRUE(says(end.out, "classifier.weight")) << end.out;
  const ProgramEnd nothing = verify({"--model", folder_ / "nothing"});
  EXPECT_EQ(nothing.code, 2);
  EXPECT_TRUE(says(nothing.err, "there is no folder or file " + (folder_ / "nothing"))) << nothing.err;
}

TEST_F(VerifyCommand, AsksForTheInputsOfTorchScript) {
  const std::string file = folder_ / "net.pt";
  std::ofstream(file) << "no module";
  const ProgramEnd no_shape = verify({"--model", file});
  EXPECT_EQ(no_shape.code, 2);
  EXPECT_TRUE(says(no_shape.err, "such as --input-shape 3,32,32")) << no_shape.err;
  const ProgramEnd no_module = verify({"--model", file, "--input-shape", "3"});
  EXPECT_EQ(no_module.code, 1);
  EXPECT_TRUE(says(no_module.err, "the file is not a TorchScript module")) << no_module.err;
  const ProgramEnd needless = verify({"--model", "convnet", "--input-shape", "3"});
  EXPECT_EQ(needless.code, 2);
  EXPECT_TRUE(says(needless.err, "--input-shape cannot be combined with --model convnet")) << needless.err;
}

TEST_F(VerifyCommand, ReadsConnectionRecords) {
  const std::string file = std::string(LOCKSTEP_SHARED_DATA) + "/nsl-kdd/KDDTest+.txt.gz";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not there";
  const ProgramEnd end = verify({"--model", "mlp", "--ranks", "4", "--batch", "101", "--steps", "3", "--data", file});
  EXPECT_EQ(end.code, 0) << end.err << end.out;
  EXPECT_TRUE(says(end.out, "fc5.weight")) << end.out;
}

TEST_F(VerifyCommand, RefusesDataThatTheModelDoesNotTake) {
  const ProgramEnd folder_for_features = verify({"--model", "mlp", "--data", folder_.path()});
  EXPECT_EQ(folder_for_features.code, 1);
  EXPECT_TRUE(says(folder_for_features.err, "reads one file of NSL-KDD")) << folder_for_features.err;
  const ProgramEnd text = verify({"--model", "bert-tiny", "--data", folder_.path()});
  EXPECT_EQ(text.code, 2);
  EXPECT_TRUE(says(text.err, "need a tokenizer")) << text.err;
}

TEST_F(VerifyCommand, ExitsNonZeroAboveTheTolerance) {
  const ProgramEnd end = verify({"--model", "mlp", "--ranks", "3", "--tolerance", "0"});
  EXPECT_EQ(end.code, 1) << end.out;
  EXPECT_TRUE(says(end.out, "NOT EQUAL")) << end.out;
}

// The gradient of the keys' bias consists only of rounding errors, which a second step shows.
TEST_F(VerifyCommand, TakesRoundingForNoDifference) {
  const ProgramEnd end = verify(
      {"--model", "bert-tiny", "--ranks", "2", "--batch", "4", "--seq", "8", "--steps", "2", "--dtype", "double"});
  EXPECT_EQ(end.code, 0) << end.err << end.out;
  EXPECT_TRUE(says(end.out, "attention.self.key.bias")) << end.out;
}

TEST_F(VerifyCommand, RefusesFlagsThatMeanNothing) {
  const ProgramEnd length = verify({"--model", "convnet", "--seq", "8"});
  EXPECT_EQ(length.code, 2);
  EXPECT_TRUE(says(length.err, "--seq cannot be combined with --model convnet")) << length.err;
  const ProgramEnd tolerance = verify({"--tolerance", "nan"});
  EXPECT_EQ(tolerance.code, 2);
  EXPECT_TRUE(says(tolerance.err, "--tolerance is nan")) << tolerance.err;
  const ProgramEnd batch = verify({"--batch", "0"});
  EXPECT_EQ(batch.code, 2);
  EXPECT_TRUE(says(batch.err, "--batch: Value 0 is too small")) << batch.err;
}

TEST_F(VerifyCommand, RefusesFewerSamplesThanRanks) {
  const ProgramEnd end = verify({"--batch", "2", "--ranks", "4"});
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(says(end.err, "2 samples cannot be cut into 4 shards")) << end.err;
}

}  // namespace
}  // namespace lockstep
