// Numbers and dates in a spelling that is not read as a number, in the columns of a table and as labels of texts.
#include "tools/lockstep/train/number_spelling.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/commands/run_command.h"
#include "tests/e2e/train/review_classification.h"
#include "tests/support/table_training.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/write_lines.h"
#include "tools/lockstep/train/column_cells.h"

namespace lockstep {
namespace {

struct SpelledNumber {
  const char* text;
  const char* plain;
};

std::string plain_text(std::string_view text) {
  const auto plain = plain_number(text);
  return plain ? plain->text() : "none";
}

TEST(NumberSpelling, SaysHowProgramsWriteTheNumber) {
  for (const SpelledNumber& each : std::vector<SpelledNumber>{{"0,5", "0.5"},
                                                              {"-0,5", "-0.5"},
                                                              {",5", "0.5"},
                                                              {"7,898891", "7.898891"},
                                                              {"7,898.891", "7898.891"},
                                                              {"7.898,891", "7898.891"},
                                                              {"1.234.567", "1234567"},
                                                              {"1 234 567,8", "1234567.8"},
                                                              {"1\u00a0234\u202f567", "1234567"},
                                                              {"1'234.5", "1234.5"},
                                                              {"1_000.5", "1000.5"},
                                                              {"12,34,567.8", "1234567.8"},
                                                              {"1,234", "1.234 or 1234"},
                                                              {"-1,234", "-1.234 or -1234"},
                                                              {"0,125", "0.125"},
                                                              {" 0.5", "0.5"},
                                                              {"3\u00a0", "3"},
                                                              {"\u22123.5", "-3.5"},
                                                              {"99.5%", "99.5"},
                                                              {"12,5 %", "12.5"},
                                                              {"€0.5", "0.5"},
                                                              {"-$1,000.50", "-1000.50"},
                                                              {"$-3", "-3"},
                                                              {"1.234,50 EUR", "1234.50"},
                                                              {"21,5 °C", "21.5"}}) {
    EXPECT_EQ(plain_text(each.text), each.plain) << each.text;
  }
}

TEST(NumberSpelling, LeavesNumbersAndNamesAlone) {
  for (const char* text :
       {"",         "0.5",  "12",    "1e3",   "-",      "$",     "$$",       "%",        "red",
        "3D",       "16GB", "1st",   "18-25", "12:30",  "1/2",   "2:1",      "1,2,5",    "1.2.3",
        "10.0.0.1", "A1",   "S",     "12 34", "12,34,", "1..2",  "1,,2",     "-+3",      "2024-01-01",
        "+",        "5 5",  "0,5,5", "1 2,5", "a,b",    "1,5e3", "01,234.5", "1,0000.5", "N/A"}) {
    EXPECT_EQ(plain_text(text), "none") << text;
  }
}

TEST(NumberSpelling, KnowsDates) {
  for (const char* text : {"2024-01-31", "31.1.2024", "1/31/24", "31/1/2024", "2024/1/5", "2024-01-31 12:30",
                           "2024-01-31T12:30:00Z", " 2024-01-31 "}) {
    EXPECT_TRUE(is_date(text)) << text;
  }
  for (const char* text : {"", "2024", "2024-01", "2024-13-01", "32.1.2024", "13/13/2024", "3.6.10", "1.2.3.4",
                           "2024-01-31x", "2024-01/31", "2024-Q1-1", "192.168.1.1", "0.1.2024", "2024-1-"}) {
    EXPECT_FALSE(is_date(text)) << text;
  }
}

struct ColumnCase {
  const char* name;
  int rows;
  std::function<std::string(int)> cell;
  const char* want;  // a part of the warning; empty: none
  friend std::ostream& operator<<(std::ostream& out, const ColumnCase& each) { return out << each.name; }
};

std::string cell_number(int i) { return std::to_string(i); }

const std::vector<ColumnCase> kColumnCases{
    {"decimal_commas", 9, [](int i) { return cell_number(i) + "," + cell_number(i % 10); },
     "\"a\" of F is read as words, each a category: 9 of 9 values would be numbers if they were written as 0.0 and "
     "not as \"0,0\", row 0"},
    {"thousands_among_numbers", 20,
     [](int i) { return i % 4 == 0 ? "1,00" + cell_number(i % 10) + ".5" : cell_number(i); },
     "20 of 20 values would be numbers if they were written as 1000.5 and not as \"1,000.5\", row 0"},
    {"the_clearer_example", 9, [](int i) { return i == 5 ? std::string("1,5") : "1,23" + cell_number(i); },
     "written as 1.5 and not as \"1,5\", row 5"},
    {"percent", 9, [](int i) { return cell_number(i) + "%"; }, "written as 0 and not as \"0%\", row 0"},
    {"currency", 9, [](int i) { return "€" + cell_number(i) + ".5"; }, "written as 0.5 and not as \"€0.5\", row 0"},
    {"a_word_among_numbers", 9, [](int i) { return i == 3 ? "high" : cell_number(i); },
     "besides 8 numbers it has 1 other value, the first \"high\", row 3"},
    {"some_in_other_spelling", 9, [](int i) { return i < 4 ? cell_number(i) + ",5" : "w" + cell_number(i); }, ""},
    {"dates", 40, [](int i) { return "2024-01-" + cell_number(10 + i % 20); },
     "40 of 40 values are dates, the first \"2024-01-10\", row 0; give numbers"},
    {"few_dates", 100, [](int i) { return "2024-0" + cell_number(1 + i % 4) + "-01"; }, ""},
    {"names", 60, [](int i) { return "name " + cell_number(i % 31); },
     "31 values in 60 rows differ, so most say nothing of another row, the first \"name 0\", row 0"},
    {"categories", 60, [](int i) { return "kind " + cell_number(i % 30); }, ""},
    {"names_in_few_rows", 49, [](int i) { return "name " + cell_number(i); }, ""},
    {"sizes", 60, [](int i) { return cell_number(i % 5) + "XL"; }, ""},
    {"ages", 60, [](int i) { return cell_number(i % 5 * 10) + "-" + cell_number(i % 5 * 10 + 9); }, ""},
    {"numbers", 60, [](int i) { return cell_number(i); }, ""},
    {"blanks", 60, [](int) { return std::string(" "); }, ""},
};

class ColumnWords : public ::testing::TestWithParam<ColumnCase> {};

TEST_P(ColumnWords, ThatWereProbablyMeantOtherwiseAreWarnedAbout) {
  ColumnCells cells;
  for (int i = 0; i < GetParam().rows; ++i) cells.add(GetParam().cell(i), [i] { return "row " + cell_number(i); });
  const std::vector<std::string> got = cells.warnings_of_words("a", "F");
  const std::string want = GetParam().want;
  ASSERT_EQ(got.size(), want.empty() ? 0U : 1U) << ::testing::PrintToString(got);
  if (want.empty()) return;
  EXPECT_TRUE(says(got[0], want)) << got[0];
}
INSTANTIATE_TEST_SUITE_P(Table, ColumnWords, ::testing::ValuesIn(kColumnCases),
                         [](const auto& test) { return test.param.name; });

TEST(NumberSpelling, OfColumnsIsSaidByATraining) {
  const TemporaryFolder folder;
  std::string rows = "a;colour;label\n";
  for (int i = 0; i < 40; ++i)
    rows += cell_number(i % 17) + (i % 3 == 0 ? ",5;red;" : ",25;blue;") + (i % 17 > 8 ? "x\n" : "y\n");
  const std::string file = write_lines(folder / "rows.csv", rows);
  const std::string said =
      run_well(table_training(file, folder / "out", {"--max-steps", "1", "--save-strategy", "no", "--delimiter", ";"}));
  EXPECT_TRUE(says(said, "warning: the column \"a\" of " + file +
                             " is read as words, each a category: 40 of 40 values would be numbers if they were "
                             "written as 0.5 and not as \"0,5\", " +
                             file + ":2:1"))
      << said;
  EXPECT_FALSE(says(said, "\"colour\" of ")) << said;
}

TEST(NumberSpelling, OfLabelsIsSaid) {
  const auto warning = [](const std::vector<std::string>& labels) {
    const std::vector<std::string> all = warnings_of_number_labels(labels, "F");
    return all.empty() ? "" : all.at(0);
  };
  EXPECT_TRUE(says(warning({"0,0", "0,5", "1,0"}),
                   "3 of 3 labels of F are read as classes, and would be numbers to predict if they were written as "
                   "0.5 and not as \"0,5\""));
  EXPECT_TRUE(says(warning({" 0.5", "1"}), "written as 0.5 and not as \" 0.5\""));
  EXPECT_TRUE(says(warning({"1,234", "0,5"}), "written as 0.5"));
  EXPECT_TRUE(says(warning({"0.5%", "1%"}), "written as 0.5"));
  for (const std::vector<std::string>& classes : std::vector<std::vector<std::string>>{
           {"good", "bad"}, {"0", "1"}, {" 0", "1"}, {"5%", "10%"}, {"0,5", "a", "b"}, {}}) {
    EXPECT_EQ(warning(classes), "") << ::testing::PrintToString(classes);
  }
}

TEST(NumberSpelling, OfLabelsIsSaidByATraining) {
  const TemporaryFolder folder;
  std::string rows = "text;label\n";
  for (int i = 0; i < 12; ++i)
    rows += "food " + cell_number(i) + ";" + cell_number(i % 3) + (i % 2 == 0 ? ",5\n" : ",0\n");
  const std::string file = write_lines(folder / "rows.csv", rows);
  const auto train = [&](const CommandWords& more) {
    const CommandWords brief{"--max-steps", "1", "--save-strategy", "no", "--delimiter", ";"};
    return run_well(without_program(text_classification(file, folder / "out", joined_words(brief, more))));
  };
  const std::string warning = "labels of " + file + " are read as classes, and would be numbers to predict";
  const std::string open = train({});
  EXPECT_TRUE(says(open, warning)) << open;
  const std::string asked = train({"--problem-type", "single_label_classification"});
  EXPECT_FALSE(says(asked, warning)) << asked;
}

// Among labels with fractions: the row and the label at fault, and what to write.
TEST(NumberSpelling, OfOneLabelAmongFractionsIsRefusedWithItsRow) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& label) {
    const std::string file =
        write_lines(folder / "rows.csv", "text,label\ngood,0.5\nbad,1.5\nfair," + label + "\nlate,2.5\n");
    const ProgramEnd end = run_command(
        without_program(text_classification(file, folder / "out", {"--max-steps", "1", "--save-strategy", "no"})));
    EXPECT_EQ(end.code, 2) << end.err;
    return end.err;
  };
  const std::string nan = refusal("nan");
  EXPECT_TRUE(says(nan, "the label \"0.5\" is a number with a fraction, but \"nan\" is not a number")) << nan;
  EXPECT_TRUE(says(nan, "rows.csv:4")) << nan;
  const std::string thousands = refusal("\"1,000.5\"");
  EXPECT_TRUE(says(thousands, "but \"1,000.5\" is not a number")) << thousands;
  EXPECT_TRUE(says(thousands, "rows.csv:4")) << thousands;
  EXPECT_TRUE(says(thousands, "write \"1,000.5\" as 1000.5")) << thousands;
}

}  // namespace
}  // namespace lockstep
