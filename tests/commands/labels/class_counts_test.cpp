// What a training says of the labels in its file.
#include "tools/lockstep/train/class_counts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/commands/run_command.h"
#include "tests/e2e/train/review_classification.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/write_lines.h"

namespace lockstep {
namespace {

struct SpellingCase {
  const char* name;
  ClassCounts counts;
  std::vector<std::string> want;  // a part of each warning
  friend std::ostream& operator<<(std::ostream& out, const SpellingCase& each) { return out << each.name; }
};

const std::vector<SpellingCase> kSpellings{
    {"clean", {{"bad", 59}, {"good", 59}}, {}},
    {"case",
     {{"bad", 59}, {"good", 59}, {"Good", 1}},
     {"label Good of 1 row in F is a class of its own besides good of 59 rows: they differ only by case"}},
    {"blank",
     {{"bad", 59}, {"good", 59}, {"good ", 2}},
     {"label \"good \" of 2 rows in F is a class of its own besides good of 59 rows: they differ only by "
      "blanks at the ends"}},
    {"many_with_blanks",
     {{"bad ", 60}, {"bad", 59}},
     {"label bad of 59 rows in F is a class of its own besides \"bad \" of 60 rows"}},
    {"both", {{"good", 59}, {"\tGOOD", 1}}, {"only by case and blanks"}},
    {"beyond_ascii", {{"süß", 40}, {"SÜß", 2}}, {"they differ only by case"}},
    {"no_break_space",
     {{"bad", 59}, {"good", 59}, {"bad\u00a0", 1}},
     {"label \"bad\\u00a0\" of 1 row in F is a class of its own besides bad of 59 rows: they differ only by blanks or "
      "invisible characters"}},
    {"zero_width", {{"bad", 59}, {"good", 59}, {"go\u200bod", 20}}, {"label \"go\\u200bod\" of 20 rows in F is"}},
    {"byte_order_mark", {{"bad", 59}, {"\ufeffbad", 1}}, {"label \"\\ufeffbad\" of 1 row"}},
    {"inner_no_break_space", {{"very good", 59}, {"very\u00a0good", 1}}, {"label \"very\\u00a0good\" of 1 row"}},
    {"equal_numbers",
     {{"0", 50}, {"1", 59}, {"01", 20}, {"1.0", 1}, {"10", 3}},
     {"label 01 of 20 rows in F is a class of its own besides 1 of 59 rows: they are the same number",
      "label 1.0 of 1 row"}},
    {"truth_beside_numbers",
     {{"0", 50}, {"1", 59}, {"true", 1}, {"False", 2}},
     {"label False of 2 rows in F is a class of its own besides 0 of 50 rows: they may mean the same",
      "label true of 1 row"}},
    {"truth_without_numbers", {{"true", 9}, {"false", 9}, {"one", 1}}, {}},
    {"long_numbers", {{"12345678901234567890", 9}, {"12345678901234567891", 9}}, {}},
    {"joiners_of_emoji", {{"\U0001f468\u200d\U0001f469", 9}, {"\U0001f468", 9}}, {}},
    {"one_letter", {{"good", 59}, {"goood", 1}, {"food", 2}}, {}},
    {"classes_of_both_cases", {{"us", 50}, {"US", 40}}, {}},
    {"no_row", {{"good", 59}, {"Good", 0}}, {}},
    {"inner_blanks", {{"very good", 59}, {"verygood", 1}}, {}},
    {"many",
     {{"a", 9},
      {"A", 1},
      {"b", 9},
      {"B", 1},
      {"c", 9},
      {"C", 1},
      {"d", 9},
      {"D", 1},
      {"e", 9},
      {"E", 1},
      {"f", 9},
      {"F", 1},
      {"g", 9},
      {"G", 1}},
     {"label A", "label B", "label C", "label D", "label E", "2 more labels"}},
};

class Spellings : public ::testing::TestWithParam<SpellingCase> {};

TEST_P(Spellings, ThatAreProbablySlipsAreWarnedAbout) {
  const std::vector<std::string> got = warnings_of_spellings(GetParam().counts, "F");
  ASSERT_EQ(got.size(), GetParam().want.size()) << ::testing::PrintToString(got);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(says(got[i], GetParam().want[i])) << got[i];
}
INSTANTIATE_TEST_SUITE_P(Table, Spellings, ::testing::ValuesIn(kSpellings),
                         [](const auto& test) { return test.param.name; });

TEST(ClassCountsLine, HasTheMostFrequentFirstAndOfManySome) {
  EXPECT_EQ(class_counts_line({{"bad", 58}, {"good", 59}, {"Good", 1}, {"good ", 1}}),
            "Labels = good 59, bad 58, Good 1, \"good \" 1");
  EXPECT_EQ(class_counts_line({{"bad", 4}, {"bad\u00a0", 3}, {"go\u200bod", 2}, {"very good", 1}}),
            "Labels = bad 4, \"bad\\u00a0\" 3, \"go\\u200bod\" 2, \"very good\" 1");
  ClassCounts many;
  for (int i = 0; i < 20; ++i) many["c" + std::to_string(10 + i)] = 100 - i;
  EXPECT_EQ(
      class_counts_line(many),
      "Labels = 20 classes: c10 100, c11 99, c12 98, c13 97, c14 96, c15 95, c16 94, ..., c26 84, c27 83, c28 82, "
      "c29 81");
}

std::string rows_of(const std::string& header, const std::vector<std::string>& labels) {
  std::string rows = header + "\n";
  for (std::size_t i = 0; i < labels.size(); ++i) rows += std::to_string(i) + "," + labels[i] + "\n";
  return rows;
}

std::vector<std::string> with_slips() {
  std::vector<std::string> labels(36);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = i % 3 == 0 ? "bad" : "good";
  labels[1] = "Good";
  labels[2] = "good ";
  return labels;
}

TEST(ClassCounts, StandInTheBlockThatATrainingBeginsWith) {
  const TemporaryFolder folder;
  const std::string out = folder / "out";
  const auto expect_named = [&](const CommandWords& words, const std::string& line) {
    const std::string printed = run_well(words);
    for (const std::string& part : {"\n  Labels = " + line + "\n", std::string("label Good of 1 row in "),
                                    std::string("label \"good \" of 1 row in ")}) {
      EXPECT_TRUE(says(printed, part)) << part << " in " << printed;
    }
  };
  const CommandWords brief{"--max-steps", "1", "--save-strategy", "no"};
  const std::string texts = write_lines(folder / "texts.csv", rows_of("text,label", with_slips()));
  const std::string line = "good 22, bad 12, Good 1, \"good \" 1";
  expect_named(without_program(text_classification(texts, out, brief)), line);
  const std::string table = write_lines(folder / "table.csv", rows_of("height,label", with_slips()));
  expect_named(joined_words({"train", "--task", "tabular-classification", "--model", "mlp", "--train-file", table,
                             "--output-dir", out},
                            brief),
               line);
}

TEST(ClassCounts, AreOfEachLabelWhereATextHasSeveral) {
  const TemporaryFolder folder;
  std::string rows;
  for (int i = 0; i < 12; ++i) {
    rows += R"({"text": "row )" + std::to_string(i) + R"(", "labels": )" +
            (i == 0       ? R"(["Rude"])"
             : i % 2 == 0 ? R"(["rude", "late"])"
                          : "[]") +
            "}\n";
  }
  const std::string file = write_lines(folder / "rows.jsonl", rows);
  const std::string printed = run_well(
      without_program(text_classification(file, folder / "out", {"--max-steps", "1", "--save-strategy", "no"})));
  EXPECT_TRUE(says(printed, "  Labels = late 5, rude 5, Rude 1\n")) << printed;
  EXPECT_TRUE(says(printed, "label Rude of 1 row")) << printed;
}

}  // namespace
}  // namespace lockstep
