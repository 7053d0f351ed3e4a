// Tests that a model whose head was trained keeps the numbers that its config.json gives the labels, and that nobody
// judges a head that was never trained.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/base/files/atomic_file.h"
#include "tests/commands/run_command.h"
#include "tests/e2e/train/review_classification.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/write_lines.h"

namespace lockstep {
namespace {

class HeadLabels : public ::testing::Test {
 protected:
  void SetUp() override {
    write_lines(rows_, "text,label\ngood food,good\nbad fish,bad\nso so,fair\na good price,good\ncold and late,bad\n");
    run_well(training_of("bert-tiny", model_));
  }
  CommandWords training_of(const std::string& model, const std::string& output, const CommandWords& more = {}) const {
    CommandWords words =
        text_classification(rows_, output, joined_words({"--max-steps", "1", "--save-strategy", "no"}, more));
    words.at(5) = model;
    return without_program(words);
  }
  void name_labels(const std::string& zero, const std::string& one, const std::string& two) const {
    nlohmann::json config = nlohmann::json::parse(read_file(model_ + "/config.json"));
    config["id2label"] = {{"0", zero}, {"1", one}, {"2", two}};
    config["label2id"] = {{zero, 0}, {one, 1}, {two, 2}};
    write_lines(model_ + "/config.json", config.dump());
  }
  static nlohmann::json json_of(const std::string& path) { return nlohmann::json::parse(read_file(path)); }

  TemporaryFolder folder_;
  std::string rows_ = folder_ / "rows.csv", model_ = folder_ / "model", out_ = folder_ / "out";
};

TEST_F(HeadLabels, KeepTheNumbersThatTheModelGivesThem) {
  name_labels("good", "bad", "fair");
  const CommandWords judged{"evaluate",          "--task", "text-classification", "--model", model_,
                            "--validation-file", rows_,    "--output-dir",        out_,      "--save"};
  run_well(judged);
  const double loss = json_of(out_ + "/eval_results.json").at("eval_loss");
  // A learning rate of 0 leaves the head as it was read.
  const ProgramEnd end =
      run_command(training_of(model_, folder_ / "more", {"--validation-file", rows_, "--learning-rate", "0"}));
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_FALSE(says(end.err, "the model's labels are")) << end.err;
  EXPECT_NEAR(json_of(folder_ / "more/eval_results.json").at("eval_loss"), loss, 1e-5);
  EXPECT_EQ(json_of(folder_ / "more/config.json").at("id2label").at("0"), "good");
}

TEST_F(HeadLabels, OfSeveralLabelsATextKeepTheirNumbersToo) {
  write_lines(rows_, "text,late,food\ngood food,0,1\nbad fish,0,1\ncold and late,1,0\n");
  const CommandWords columns{"--label-column", "food", "late", "--validation-file", rows_, "--learning-rate", "0"};
  run_well(training_of("bert-tiny", out_, columns));
  const CommandWords turned{"--label-column", "late", "food", "--validation-file", rows_, "--learning-rate", "0"};
  run_well(training_of(out_, folder_ / "more", turned));
  EXPECT_EQ(json_of(folder_ / "more/config.json").at("id2label"), json_of(out_ + "/config.json").at("id2label"));
  EXPECT_NEAR(json_of(folder_ / "more/eval_results.json").at("eval_loss"),
              json_of(out_ + "/eval_results.json").at("eval_loss"), 1e-5);
}

TEST_F(HeadLabels, OfAnotherTaskAreSaid) {
  name_labels("entailment", "neutral", "contradiction");
  const ProgramEnd end = run_command(training_of(model_, out_));
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(says(end.err, "the model's labels are entailment, neutral, contradiction, but those of ")) << end.err;
  EXPECT_EQ(json_of(out_ + "/config.json").at("id2label").at("0"), "bad");
}

TEST_F(HeadLabels, AreNotJudgedByAHeadThatIsNew) {
  const ProgramEnd end =
      run_command({"evaluate", "--task", "language-modeling", "--mlm", "--model", model_, "--validation-file",
                   kShipped + "reviews.csv", "--text-column", "review", "--block-size", "16"});
  EXPECT_EQ(end.code, 1) << end.out;
  EXPECT_TRUE(says(end.err, "the model has no weights for all of its parameters")) << end.err;
}

}  // namespace
}  // namespace lockstep
