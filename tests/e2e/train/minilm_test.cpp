// Real pretrained weights: sentence-transformers' all-MiniLM-L6-v2, a BERT of 22.7 million parameters that `lockstep
// predict` and `lockstep train` open. scripts/test-data fetches it.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lockstep/base/files/atomic_file.h"
#include "tests/e2e/train/bad_input.h"
#include "tests/e2e/train/eval_results.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

const std::string kMiniLm = LOCKSTEP_SHARED_DATA "/models/all-MiniLM-L6-v2";

class MiniLm : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kMiniLm + "/model.safetensors")) {
      GTEST_SKIP() << "not here: " << kMiniLm << " (scripts/test-data fetches it)";
    }
  }
};

TEST_F(MiniLm, GivesTheVectorsOfHuggingFace) {
  const Json expected = Json::parse(read_file(LOCKSTEP_SOURCE_DIR "/tests/e2e/train/minilm_vectors.json")).at("rows");
  const TemporaryFolder folder;
  std::string texts;
  for (const Json& row : expected) texts += row.at("text").get<std::string>() + "\n";
  write_lines(folder / "texts.txt", texts);
  const ProgramEnd end =
      run_bad({kBadInputBin, "predict", "--json", "--model", kMiniLm, "--file", folder / "texts.txt"});
  ASSERT_EQ(end.code, 0) << end.err;
  std::istringstream lines(end.out);
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const Json got = Json::parse(line).at("embedding");
    const Json& want = expected.at(count).at("embedding");
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(got[i].get<double>(), want[i].get<double>(), 1e-6) << "text " << count << ", number " << i;
    }
  }
  EXPECT_EQ(count, expected.size());
}

// 32 updates on 512 reviews gave 0.615. bert-mini from random weights stayed at 0.385: it gave all one label.
TEST_F(MiniLm, LearnsReviewsInAFewUpdates) {
  const TemporaryFolder folder;
  const std::string out = folder / "out";
  const ProgramEnd end = run_bad({kBadInputBin,
                                  "run",
                                  "--nproc-per-node",
                                  "2",
                                  kBadInputBin,
                                  "train",
                                  "--task",
                                  "text-classification",
                                  "--model",
                                  kMiniLm,
                                  "--train-file",
                                  kBadInputData + "reviews.csv",
                                  "--validation-file",
                                  kBadInputData + "reviews-test.csv",
                                  "--label-column",
                                  "division",
                                  "--max-length",
                                  "48",
                                  "--max-train-samples",
                                  "512",
                                  "--max-eval-samples",
                                  "200",
                                  "--per-device-train-batch-size",
                                  "8",
                                  "--learning-rate",
                                  "2e-4",
                                  "--num-train-epochs",
                                  "1",
                                  "--save-strategy",
                                  "no",
                                  "--output-dir",
                                  out});
  ASSERT_EQ(end.code, 0) << end.out << end.err;
  EXPECT_TRUE(tells(end.out + end.err, "classifier")) << "the new head is named: " << end.out << end.err;
  EXPECT_GT(eval_result(out, "eval_accuracy"), 0.5);
  const ProgramEnd predicted = run_bad({kBadInputBin, "predict", "--model", out, "--file",
                                        kBadInputData + "reviews-test.csv", "--text-column", "review"});
  ASSERT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_TRUE(tells(predicted.out, "positive\t") && tells(predicted.out, "negative\t")) << predicted.out;
}

}  // namespace
}  // namespace lockstep
