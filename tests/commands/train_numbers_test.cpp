// Tests `lockstep train`, `evaluate` and `predict` with labels that are not classes.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "lockstep/base/files/atomic_file.h"
#include "tests/commands/run_command.h"
#include "tests/e2e/train/eval_results.h"
#include "tests/e2e/train/review_classification.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

// One label with a fraction makes numbers of all labels. The block says so, where it would have listed classes.
TEST(TrainNumbers, AreSaidWithTheLabelThatMakesThem) {
  const TemporaryFolder folder;
  std::string csv = "text,label\n";
  for (int i = 0; i < 16; ++i) csv += "food " + std::to_string(i) + (i == 6 ? ",0.5\n" : i % 2 == 0 ? ",0\n" : ",1\n");
  const std::string file = folder / "rows.csv";
  write_file_atomically(file, csv);
  const CommandWords brief{"--max-steps", "1", "--save-strategy", "no"};
  const auto train = [&](const CommandWords& more) {
    CommandWords words = without_program(text_classification(file, folder / "out", brief));
    words.insert(words.end(), more.begin(), more.end());
    return run_command(words);
  };
  const ProgramEnd open = train({});
  ASSERT_EQ(open.code, 0) << open.err;
  EXPECT_TRUE(says(open.out, "\n  Task = regression: label 0.5 in " + file + ":8 has a fraction (1 of 16 rows)\n"))
      << open.out;
  const ProgramEnd asked = train({"--problem-type", "regression"});
  EXPECT_TRUE(says(asked.out, "\n  Task = regression: --problem-type\n")) << asked.out << asked.err;
  const ProgramEnd classes = train({"--problem-type", "single_label_classification"});
  EXPECT_EQ(classes.code, 2);
  EXPECT_TRUE(says(classes.err, "the label \"0.5\" is a number with a fraction")) << classes.err;
  EXPECT_TRUE(says(classes.err, "where: " + file + ":8")) << classes.err;
}

// As run_glue on STS-B: labels with fractions make a model with one output, whose metrics compare its values with them.
TEST(TrainNumbers, AsLabelsAreLearnedEvaluatedAndPredicted) {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, double>> rows{
      {"good food", 4.5}, {"bad fish", 0.25}, {"the price is fair", 3}, {"cold and late", 1.75}};
  std::string csv = "text,label\n", lines;
  for (int copy = 0; copy < 4; ++copy) {
    for (const auto& [text, label] : rows) {
      csv += text + "," + nlohmann::json(label).dump() + "\n";
      lines += nlohmann::json{{"text", text}, {"label", label}}.dump() + "\n";
    }
  }
  write_file_atomically(folder / "rows.csv", csv);
  write_file_atomically(folder / "rows.jsonl", lines);
  double eval_mse = 0;
  for (const char* name : {"rows.csv", "rows.jsonl"}) {
    const std::string file = folder / name, out = folder / (std::string("out-") + name);
    // On two ranks, and on one.
    const CommandWords words =
        text_classification(file, out, {"--validation-file", file, "--max-steps", "4", "--save-strategy", "no"});
    const ProgramEnd end = name == std::string("rows.csv")
                               ? run_program(on_two_ranks(words), {}, std::chrono::seconds(300))
                               : run_command(without_program(words));
    ASSERT_EQ(end.code, 0) << end.out << end.err;
    const auto config = nlohmann::json::parse(read_file(out + "/config.json"));
    EXPECT_EQ(config.at("problem_type"), "regression");
    EXPECT_EQ(config.at("id2label").size(), 1U);
    eval_mse = eval_result(out, "eval_mse");
    EXPECT_NEAR(eval_mse, eval_result(out, "eval_loss"), 1e-4 * eval_mse);
    EXPECT_LE(std::abs(eval_result(out, "eval_pearson")), 1 + 1e-9);
    EXPECT_LE(std::abs(eval_result(out, "eval_spearmanr")), 1 + 1e-9);
  }
  // The values that predict prints are those that the evaluation compared.
  const ProgramEnd predicted =
      run_command({"predict", "--json", "--model", folder / "out-rows.jsonl", "--file", folder / "rows.jsonl"});
  ASSERT_EQ(predicted.code, 0) << predicted.err;
  std::istringstream answers(predicted.out);
  double squares = 0;
  std::size_t count = 0;
  for (std::string line; std::getline(answers, line); ++count) {
    const double miss = nlohmann::json::parse(line).at("score").get<double>() - rows[count % rows.size()].second;
    squares += miss * miss;
  }
  ASSERT_EQ(count, 4 * rows.size());
  EXPECT_NEAR(squares / static_cast<double>(count), eval_mse, 1e-4 * eval_mse);

  const ProgramEnd classes =
      run_command({"evaluate", "--task", "text-classification", "--model", folder / "out-rows.csv", "--validation-file",
                   kShipped + "reviews-test.csv", "--text-column", "review", "--label-column", "division",
                   "--output-dir", folder / "evaluated"});
  EXPECT_EQ(classes.code, 2) << classes.out;
  EXPECT_TRUE(says(classes.err, "is not a number, but the model learns numbers")) << classes.err;
}

// A model of several labels a text is not trained on one label a row.
TEST(TrainNumbers, AModelOfSeveralLabelsRefusesClasses) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "config.json",
                        R"({"model_type": "bert", "problem_type": "multi_label_classification"})");
  const ProgramEnd end =
      run_command(without_program(review_classification(folder / "out", {"--model", folder.path()})));
  EXPECT_EQ(end.code, 2) << end.out;
  EXPECT_TRUE(says(end.err, "several labels")) << end.err;
}

}  // namespace
}  // namespace lockstep
