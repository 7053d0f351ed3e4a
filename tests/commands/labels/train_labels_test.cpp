// Tests `lockstep train`, `evaluate` and `predict` with several labels a text.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lockstep/base/files/atomic_file.h"
#include "tests/commands/run_command.h"
#include "tests/e2e/train/review_classification.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/write_lines.h"

namespace lockstep {
namespace {

struct LabelledText {
  const char* text;
  std::vector<std::string> labels;
};

const std::vector<LabelledText> kLabelled{{"good food, fair price", {"food", "price"}},
                                          {"bad fish", {"food"}},
                                          {"the price is fair", {"price"}},
                                          {"cold and late", {"late"}},
                                          {"nothing to tell", {}}};
const std::vector<std::string> kSortedLabels{"food", "late", "price"};

std::string of_labelled(int copies, const std::function<std::string(const LabelledText&)>& line) {
  std::string lines;
  for (int copy = 0; copy < copies; ++copy) {
    for (const LabelledText& row : kLabelled) lines += line(row) + "\n";
  }
  return lines;
}

bool is_labelled(const LabelledText& row, const std::string& label) {
  return std::find(row.labels.begin(), row.labels.end(), label) != row.labels.end();
}

std::string as_json_lists(const LabelledText& row) {
  return nlohmann::json{{"text", row.text}, {"labels", row.labels}}.dump();
}

std::string as_flags(const LabelledText& row, const std::string& parted_by) {
  std::string line = "\"" + std::string(row.text) + "\"";
  for (const std::string& label : kSortedLabels) line += parted_by + (is_labelled(row, label) ? "1" : "0");
  return line;
}

std::string as_python_list(const LabelledText& row) {
  std::string list;
  for (const std::string& label : row.labels) list += (list.empty() ? "'" : ", '") + label + "'";
  return "\"" + std::string(row.text) + "\",\"[" + list + "]\"";
}

class TrainLabels : public ::testing::Test {
 protected:
  CommandWords words_of_training(const std::string& file, const CommandWords& more) const {
    return text_classification(file, out_,
                               joined_words({"--validation-file", file, "--max-steps", "4",
                                             "--per-device-train-batch-size", "4", "--save-strategy", "no"},
                                            more));
  }
  ProgramEnd train(const std::string& file, const CommandWords& more) const {
    return run_command(without_program(words_of_training(file, more)));
  }
  nlohmann::json results() const { return nlohmann::json::parse(read_file(out_ + "/eval_results.json")); }

  TemporaryFolder folder_;
  std::string out_ = folder_ / "out";
};

// What the evaluation reports, computed again from what predict prints.
void expect_results_of_answers(const nlohmann::json& results, const std::string& answers) {
  std::istringstream lines(answers);
  double loss = 0, hits = 0, named = 0, right = 0, macro = 0;
  std::map<std::string, double> hits_of, named_of;
  std::size_t rows = 0;
  for (std::string line; std::getline(lines, line); ++rows) {
    const auto scores = nlohmann::json::parse(line).at("scores");
    bool is_right = true;
    for (const std::string& label : kSortedLabels) {
      const double score = scores.at(label).get<double>();
      const bool want = is_labelled(kLabelled[rows % kLabelled.size()], label), got = score > 0.5;
      loss -= std::log(want ? score : 1 - score);
      hits_of[label] += want && got;
      named_of[label] += want + got;
      is_right = is_right && want == got;
    }
    right += is_right;
  }
  ASSERT_GT(rows, 0U);
  for (const std::string& label : kSortedLabels) {
    hits += hits_of[label];
    named += named_of[label];
    macro += named_of[label] == 0 ? 0 : 2 * hits_of[label] / named_of[label] / 3;
  }
  EXPECT_NEAR(results.at("eval_loss").get<double>(), loss / 3 / static_cast<double>(rows), 1e-4);
  EXPECT_NEAR(results.at("eval_f1_micro").get<double>(), named == 0 ? 0 : 2 * hits / named, 1e-9);
  EXPECT_NEAR(results.at("eval_f1_macro").get<double>(), macro, 1e-9);
  EXPECT_NEAR(results.at("eval_accuracy").get<double>(), right / static_cast<double>(rows), 1e-9);
}

// Lists of labels in JSON Lines, as Hugging Face's run_classification reads them, on two ranks.
TEST_F(TrainLabels, OfListsAreLearnedEvaluatedAndPredicted) {
  const std::string file = write_lines(folder_ / "rows.jsonl", of_labelled(5, as_json_lists));
  const ProgramEnd end = run_program(on_two_ranks(words_of_training(file, {})), {}, std::chrono::seconds(300));
  ASSERT_EQ(end.code, 0) << end.out << end.err;
  const auto config = nlohmann::json::parse(read_file(out_ + "/config.json"));
  EXPECT_EQ(config.at("problem_type"), "multi_label_classification");
  for (std::size_t i = 0; i < kSortedLabels.size(); ++i) {
    EXPECT_EQ(config.at("id2label").at(std::to_string(i)), kSortedLabels[i]);
  }
  const ProgramEnd answers = run_command({"predict", "--json", "--model", out_, "--file", file});
  ASSERT_EQ(answers.code, 0) << answers.err;
  expect_results_of_answers(results(), answers.out);
}

// The same labels as columns of 0 and 1, and as the lists that pandas writes: the same training to the bit.
TEST_F(TrainLabels, InColumnsAndInListsAreTheSame) {
  struct Form {
    const char* name;
    std::string content;
    CommandWords flags;
  };
  const CommandWords columns{"--label-column", "food", "late", "price"};
  const std::vector<Form> forms{
      {"rows.jsonl", of_labelled(2, as_json_lists), {}},
      {"flags.csv",
       "text,food,late,price\n" + of_labelled(2, [](const LabelledText& row) { return as_flags(row, ","); }), columns},
      {"flags.tsv",
       "text\tfood\tlate\tprice\n" + of_labelled(2, [](const LabelledText& row) { return as_flags(row, "\t"); }),
       columns},
      {"flags.jsonl",
       of_labelled(2,
                   [](const LabelledText& row) {
                     nlohmann::json json{{"text", row.text}};
                     for (const std::string& label : kSortedLabels) json[label] = is_labelled(row, label);
                     return json.dump();
                   }),
       columns},
      {"lists.csv", "text,label\n" + of_labelled(2, as_python_list), {}}};
  nlohmann::json first;
  for (const Form& form : forms) {
    const ProgramEnd end = train(write_lines(folder_ / form.name, form.content), form.flags);
    ASSERT_EQ(end.code, 0) << form.name << end.err;
    const nlohmann::json got = results().at("eval_loss");
    if (first.is_null()) first = got;
    EXPECT_EQ(got, first) << form.name;
  }
  // A file with the model's labels as columns needs no flag to be evaluated.
  const ProgramEnd evaluated =
      run_command({"evaluate", "--task", "text-classification", "--model", out_, "--validation-file",
                   folder_ / "flags.csv", "--output-dir", out_, "--save"});
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_NEAR(results().at("eval_loss").get<double>(), first.get<double>(), 1e-5);
}

TEST_F(TrainLabels, WhatIsNotAListOrAFlagIsRefusedWithItsPlace) {
  const auto refusal = [&](const std::string& file, const CommandWords& flags) {
    const ProgramEnd end = train(file, flags);
    EXPECT_NE(end.code, 0) << end.out;
    return end.err;
  };
  const std::string bars = write_lines(folder_ / "bars.csv", "text,label\na b,x|y\nc d,x\n");
  const std::string flags = write_lines(folder_ / "flags.csv", "text,x,y\na b,1,0\nc d,1,2\n");
  const std::string whole = write_lines(folder_ / "whole.csv", "text,x,y\na b,1,0\n");
  const std::string twice = write_lines(folder_ / "twice.jsonl", "{\"text\":\"a\",\"label\":[0,1,0]}\n");
  EXPECT_TRUE(says(refusal(bars, {"--problem-type", "multi_label_classification"}), "\"x\" is not a list"));
  EXPECT_TRUE(says(refusal(flags, {"--label-column", "x", "y"}), "flags.csv:3:7"));
  EXPECT_TRUE(says(refusal(twice, {}), "names the label \"0\" twice"));
  EXPECT_TRUE(says(refusal(whole, {"--label-column", "x", "y", "--problem-type", "regression"}), "2 label columns"));
}

// A label of the evaluation that the model does not have is refused, or its row left out.
TEST_F(TrainLabels, UnknownToTheModelAreRefusedOrLeftOut) {
  const std::string file = write_lines(folder_ / "rows.jsonl", of_labelled(2, as_json_lists));
  ASSERT_EQ(train(file, {}).code, 0);
  const std::string more =
      write_lines(folder_ / "more.jsonl", of_labelled(1, as_json_lists) + R"({"text": "a", "labels": ["new"]})" + "\n");
  CommandWords words{"evaluate",          "--task", "text-classification", "--model", out_,
                     "--validation-file", more,     "--output-dir",        out_,      "--save"};
  const ProgramEnd refused = run_command(words);
  EXPECT_NE(refused.code, 0);
  EXPECT_TRUE(says(refused.err, "\"new\" is not one of the model's 3 labels")) << refused.err;
  words.insert(words.end(), {"--unlisted-labels", "skip"});
  const ProgramEnd skipped = run_command(words);
  ASSERT_EQ(skipped.code, 0) << skipped.err;
  const double of_known = results().at("eval_loss").get<double>();
  write_lines(more, of_labelled(1, as_json_lists));
  ASSERT_EQ(run_command(words).code, 0);
  EXPECT_EQ(results().at("eval_loss").get<double>(), of_known);
}

TEST_F(TrainLabels, OfOneCellThatConsistOfOthersAreClassesWithAWarning) {
  const std::string file = write_lines(folder_ / "rows.csv", "text,label\na b,rude\nc d,threat\ne f,rude | threat\n");
  const ProgramEnd end = train(file, {});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(says(end.err, "the label \"rude | threat\" is a class of its own")) << end.err;
  write_lines(file, "text,label\na b,rude\nc d,threat\ne f,rude | calm\n");
  EXPECT_FALSE(says(train(file, {}).err, "a class of its own"));
}

TEST_F(TrainLabels, OfNearlyAllRowsGiveAWarning) {
  std::string rows = "text,label\nc d,rare\n";
  for (int i = 0; i < 9; ++i) rows += "a b,usual\n";
  const std::string file = write_lines(folder_ / "rows.csv", rows);
  const ProgramEnd end = train(file, {});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(says(end.out + end.err, "90.0 % of the rows of " + file + " have the label \"usual\"")) << end.out;
  write_lines(file, rows + "c d,rare\n");
  const ProgramEnd fewer = train(file, {});
  EXPECT_FALSE(says(fewer.out + fewer.err, "of the rows of")) << fewer.out;
}

// Fields that semicolons part, and rows without a label.
TEST_F(TrainLabels, MissingOnesAreLeftOutOnRequest) {
  const std::string file = write_lines(folder_ / "rows.csv", "text;label\na, b;x\nc d;\ne f;y\n");
  const ProgramEnd comma = train(file, {"--missing-labels", "skip"});
  EXPECT_TRUE(says(comma.err, "--delimiter")) << comma.err;
  const ProgramEnd missing = train(file, {"--delimiter", ";"});
  EXPECT_TRUE(says(missing.err, "--missing-labels skip")) << missing.err;
  const ProgramEnd end = train(file, {"--delimiter", ";", "--missing-labels", "skip"});
  ASSERT_EQ(end.code, 0) << end.err;
  const nlohmann::json left = results().at("eval_loss");
  write_lines(file, "text;label\na, b;x\ne f;y\n");
  ASSERT_EQ(train(file, {"--delimiter", ";"}).code, 0);
  EXPECT_EQ(results().at("eval_loss"), left);
}

}  // namespace
}  // namespace lockstep
