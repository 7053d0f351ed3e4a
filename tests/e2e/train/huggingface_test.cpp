// Tests that Hugging Face's libraries open models that Lockstep saves, and the reverse. docs/design/test-tools.md
// explains LOCKSTEP_HUGGINGFACE_PYTHON.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using ModelJson = nlohmann::json;

constexpr const char* kReviewLines =
    "The fish came crisp and hot. The price is fair.\n"
    "Nobody answered the phone, and the soup was cold.\n"
    "It is a place like any other.\n";

class HuggingFaceModels : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("LOCKSTEP_HUGGINGFACE_PYTHON") == nullptr) {
      GTEST_SKIP() << "LOCKSTEP_HUGGINGFACE_PYTHON names no interpreter with torch and transformers";
    }
    std::ofstream(folder_ / "texts") << kReviewLines;
  }
  std::string on_shell(const std::string& command) const {
    const ProgramEnd end = run_program({"sh", "-c", command}, {{"HF_HUB_OFFLINE", "1"}}, std::chrono::seconds(200));
    EXPECT_EQ(end.code, 0) << command << "\n" << end.err;
    return end.out;
  }
  ModelJson of_theirs(const std::string& words, const std::string& input) const {
    const std::string script = std::string(LOCKSTEP_SOURCE_DIR) + "/tests/e2e/train/huggingface_models.py";
    return ModelJson::parse(on_shell("\"$LOCKSTEP_HUGGINGFACE_PYTHON\" " + script + " " + words + " < " + input),
                            nullptr, false);
  }
  std::string train(const std::string& tokenizer, const std::string& flags) const {
    const std::string data = std::string(LOCKSTEP_SOURCE_DIR) + "/data/";
    return on_shell(std::string(LOCKSTEP_BIN_DIR) + "/lockstep train --tokenizer " + data + tokenizer +
                    " --train-file " + data + "reviews.csv --max-train-samples 200 --max-length 32 --max-steps 20 " +
                    "--learning-rate 1e-3 " + flags + " --output-dir " + (folder_ / "out"));
  }
  // Compares Lockstep's scores for each text with Hugging Face's.
  void expect_scores(const std::string& model, const ModelJson& want) const {
    const std::string said = on_shell(std::string(LOCKSTEP_BIN_DIR) + "/lockstep predict --json --model " + model +
                                      " < " + (folder_ / "texts"));
    std::istringstream lines(said);
    std::string line;
    std::size_t text = 0;
    while (std::getline(lines, line)) {
      const ModelJson got = ModelJson::parse(line).at("scores");
      for (std::size_t label = 0; label < want.at("labels").size(); ++label) {
        EXPECT_NEAR(got.at(want.at("labels")[label].get<std::string>()).get<double>(),
                    want.at("scores").at(text).at(label).get<double>(), 1e-5)
            << line;
      }
      ++text;
    }
    EXPECT_EQ(text, want.at("scores").size());
  }

  TemporaryFolder folder_;
};

TEST_F(HuggingFaceModels, AClassifierGivesTheSameScoresThereAndBack) {
  train("reviews-vocab",
        "--task text-classification --model bert-tiny --label-column division --save-strategy steps --save-steps 10");
  for (const char* model : {"out", "out/checkpoint-10"}) {
    const std::string path = folder_ / model;
    expect_scores(path, of_theirs("scores " + path, folder_ / "texts"));
  }
  const ModelJson trained = of_theirs("train " + (folder_ / "out") + " " + (folder_ / "theirs"), folder_ / "texts");
  expect_scores(folder_ / "theirs/checkpoint-2", trained);
}

struct Relative {
  const char* type;
  const char* vocabulary;
};

class RelativesOfBert : public HuggingFaceModels, public ::testing::WithParamInterface<Relative> {};

// A model of theirs, trained here, and opened there again.
TEST_P(RelativesOfBert, GiveTheSameScoresThereAndBack) {
  const std::string vocabulary = std::string(LOCKSTEP_SOURCE_DIR) + "/data/" + GetParam().vocabulary;
  const std::string theirs = folder_ / "theirs";
  const ModelJson made = of_theirs("make " + theirs + " " + GetParam().type + " " + vocabulary, folder_ / "texts");
  expect_scores(theirs, made);
  train(
      GetParam().vocabulary,
      "--task text-classification --label-column division --ignore-mismatched-sizes --max-length 64 --model " + theirs);
  expect_scores(folder_ / "out", of_theirs("scores " + (folder_ / "out"), folder_ / "texts"));
}

INSTANTIATE_TEST_SUITE_P(Types, RelativesOfBert,
                         ::testing::Values(Relative{"roberta", "bytes-vocab"}, Relative{"distilbert", "reviews-vocab"},
                                           Relative{"electra", "reviews-vocab"}, Relative{"mpnet", "reviews-vocab"}),
                         [](const auto& test) { return std::string(test.param.type); });

TEST_F(HuggingFaceModels, ALanguageModelGoesOnAlike) {
  train("bytes-vocab", "--task language-modeling --model gpt2-tiny --text-column review");
  std::ofstream(folder_ / "beginning") << "The fish came\n";
  const std::string said =
      on_shell(std::string(LOCKSTEP_BIN_DIR) + "/lockstep predict --max-new-tokens 8 --json --model " +
               (folder_ / "out") + " < " + (folder_ / "beginning"));
  EXPECT_EQ(ModelJson::parse(said).at("generated_text"),
            of_theirs("next " + (folder_ / "out"), folder_ / "beginning").at("text"));
}

}  // namespace
}  // namespace lockstep
