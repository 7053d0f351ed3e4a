// Tests the answers of `lockstep predict` to texts, tables and folders that are not what they seem.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "lockstep/base/files/atomic_file.h"
#include "tests/commands/run_command.h"
#include "tests/e2e/train/review_classification.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/write_lines.h"

namespace lockstep {
namespace {

using namespace std::string_view_literals;

class PredictBadInput : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    run_well(without_program(review_classification(
        *folder_ / "model", {"--max-train-samples", "32", "--max-length", "16", "--max-steps", "1"})));
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static ProgramEnd predict(const std::string& text) {
    const std::string file = write_lines(*folder_ / "lines.txt", text);
    return run_command({"predict", "--model", *folder_ / "model", "--file", file});
  }
  static TemporaryFolder* folder_;
};
TemporaryFolder* PredictBadInput::folder_ = nullptr;

TEST_F(PredictBadInput, BytesThatAreNoTextAreNamedWithTheirLine) {
  const ProgramEnd invalid = predict(
      "good\nb\xE4"
      "d\n");
  EXPECT_EQ(invalid.code, 1) << invalid.out;
  EXPECT_TRUE(says(invalid.err, "byte 2 of the line, 0xe4, is not UTF-8")) << invalid.err;
  EXPECT_TRUE(says(invalid.err, "lines.txt:2")) << invalid.err;
  const ProgramEnd nul = predict(std::string("good\n\0bad\n", 10));
  EXPECT_EQ(nul.code, 1);
  EXPECT_TRUE(says(nul.err, "byte 1 of the line is NUL")) << nul.err;
  const ProgramEnd wide = predict(std::string("\xFF\xFEg\0o\0\n\0", 8));
  EXPECT_EQ(wide.code, 1);
  EXPECT_TRUE(says(wide.err, "UTF-16")) << wide.err;
  EXPECT_TRUE(says(wide.err, "iconv")) << wide.err;
}

TEST_F(PredictBadInput, AFileOfAnswersAppearsWholeOrNotAtAll) {
  const std::string file = write_lines(*folder_ / "lines.txt", "a \"nice\" day, here\nplain\n");
  CommandWords words{"predict", "--model", *folder_ / "model", "--file", file, "--output-file"};
  const auto with = [&](const std::string& output, const CommandWords& more = {}) {
    CommandWords all = words;
    all.push_back(output);
    all.insert(all.end(), more.begin(), more.end());
    return run_command(all);
  };
  const std::string table = *folder_ / "answers.csv";
  ASSERT_EQ(with(table).code, 0);
  const std::string text = read_file(table);
  EXPECT_TRUE(says(text, ",\"a \"\"nice\"\" day, here\",")) << text;
  EXPECT_TRUE(says(text, ",plain,")) << text;
  EXPECT_TRUE(says(with(*folder_ / "answers.xls").err, "name it .csv, .tsv or .jsonl"));
  EXPECT_TRUE(says(with(table, {"--json"}).err, "leave --json out"));
  EXPECT_EQ(with(*folder_ / "no-such/answers.csv").code, 1);
  write_lines(*folder_ / "lines.txt", "good\nb\xE4\n");
  EXPECT_EQ(with(table).code, 1);
  EXPECT_EQ(read_file(table), text) << "a failure leaves the old file";
}

TEST_F(PredictBadInput, ATabInSomeLinesIsNamedWithBothLines) {
  for (const char* text : {"a nice day\nc\td\n", "c\td\na nice day\n"}) {
    const ProgramEnd end = predict(text);
    EXPECT_EQ(end.code, 1) << end.out;
    EXPECT_TRUE(says(end.err, "there is a tab in ")) << end.err;
    EXPECT_TRUE(says(end.err, "lines.txt:1")) << end.err;
    EXPECT_TRUE(says(end.err, "lines.txt:2")) << end.err;
    EXPECT_TRUE(says(end.err, "JSON Lines")) << end.err;
  }
  EXPECT_EQ(predict("a\tb\nc\td\n").code, 0);
}

TEST_F(PredictBadInput, AMissingTokenizerIsNamedWithItsFlag) {
  const std::string nowhere = *folder_ / "no-tokenizer";
  const CommandWords predicts{"predict", "--model", *folder_ / "model", "--tokenizer", nowhere};
  const CommandWords trains{
      "train",          "--task",       "text-classification",    "--model",        "bert-tiny", "--tokenizer",
      nowhere,          "--train-file", kShipped + "reviews.csv", "--label-column", "division",  "--output-dir",
      *folder_ / "none"};
  for (const CommandWords& words : {predicts, trains}) {
    const ProgramEnd end = run_command(words);
    EXPECT_EQ(end.code, 2) << end.out;
    EXPECT_TRUE(says(end.err, "there is no folder " + nowhere)) << end.err;
    EXPECT_TRUE(says(end.err, "where: --tokenizer")) << end.err;
  }
}

TEST_F(PredictBadInput, ATableIsReadByItsColumnAndNeverByItsLines) {
  const auto answers_of = [](const std::string& file, const CommandWords& more) {
    CommandWords words{"predict", "--model", *folder_ / "model", "--file", file};
    words.insert(words.end(), more.begin(), more.end());
    return run_command(words);
  };
  const std::string lines = write_lines(*folder_ / "texts.txt", "good, and cheap\nbad\n");
  const std::string table = write_lines(*folder_ / "table.csv", "id,text\n1,\"good, and cheap\"\n2, \n3,bad\n");
  const ProgramEnd by_column = answers_of(table, {});
  EXPECT_EQ(by_column.code, 0) << by_column.err;
  EXPECT_EQ(by_column.out, answers_of(lines, {}).out);
  EXPECT_TRUE(says(by_column.err, "passed over 1 blank row, which have no answer: ")) << by_column.err;
  EXPECT_TRUE(says(by_column.err, "table.csv:3")) << by_column.err;

  const std::string other = write_lines(*folder_ / "other.csv", "id,words\n1,\"good, and cheap\"\n3,bad\n");
  const ProgramEnd unclear = answers_of(other, {});
  EXPECT_EQ(unclear.code, 2) << unclear.out;
  EXPECT_TRUE(says(unclear.err, "the text column is unknown; the columns are id, words")) << unclear.err;
  EXPECT_TRUE(says(unclear.err, "give --text-column")) << unclear.err;
  EXPECT_EQ(answers_of(other, {"--text-column", "words"}).out, by_column.out);
  const std::string objects =
      write_lines(*folder_ / "o.jsonl", "{\"text\": \"good, and cheap\"}\n{\"text\": \"bad\"}\n");
  EXPECT_EQ(answers_of(objects, {}).out, by_column.out);
  // In SQuAD's format.
  const std::string squad = write_lines(
      *folder_ / "squad.json",
      R"({"data": [{"title": "t", "paragraphs": [{"context": "good, and cheap", "qas": [{"id": "1", "question": "q"}]},
                                                  {"context": "bad", "qas": [{"id": "2", "question": "q"}]}]}]})");
  const ProgramEnd questions = answers_of(squad, {});
  EXPECT_EQ(questions.code, 2) << questions.out;
  EXPECT_TRUE(says(questions.err, "the text column is unknown; the columns are id, title, context, question"))
      << questions.err;
  EXPECT_EQ(answers_of(squad, {"--text-column", "context"}).out, by_column.out);
  // Its columns are looked for in the file, which is cut.
  const ProgramEnd parquet = answers_of(write_lines(*folder_ / "rows.parquet", "PAR1"), {});
  EXPECT_EQ(parquet.code, 1) << parquet.out;
  EXPECT_TRUE(says(parquet.err, "rows.parquet")) << parquet.err;
  EXPECT_FALSE(says(parquet.err, "column is unknown")) << parquet.err;
  const ProgramEnd pairs = answers_of(other, {"--text-column", "id", "--text-column", "words"});
  EXPECT_TRUE(says(pairs.out, "\t1\\tgood, and cheap\n")) << pairs.out;
  const ProgramEnd piped = run_command({"predict", "--model", *folder_ / "model", "--text-column", "text"});
  EXPECT_EQ(piped.code, 2);
  EXPECT_TRUE(says(piped.err, "standard input, which has no columns")) << piped.err;
}

TEST_F(PredictBadInput, NothingToPredictIsSaid) {
  const ProgramEnd end = predict("");
  EXPECT_EQ(end.code, 0);
  EXPECT_TRUE(says(end.err, "lines.txt: there are no texts")) << end.err;
}

TEST_F(PredictBadInput, BlankLinesArePassedOverAndCountedAndAMarkIsNoText) {
  const ProgramEnd end = predict("\xEF\xBB\xBFgood\n\n  \nbad\n");
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(std::count(end.out.begin(), end.out.end(), '\n'), 2) << end.out;
  EXPECT_TRUE(says(end.out, "\tgood\n")) << end.out;
  EXPECT_TRUE(says(end.err, "passed over 2 blank lines, which have no answer: 2, 3")) << end.err;
}

// With LF, CRLF or CR, and in a file also as gzip.
TEST_F(PredictBadInput, LinesEndAsTheyDoInATraining) {
  const CommandWords model{"predict", "--model", *folder_ / "model"};
  const std::string three = run_command(model, "one\ntwo\nthree\n").out;
  EXPECT_EQ(std::count(three.begin(), three.end(), '\n'), 3) << three;
  // gzip -n of "one\rtwo\rthree"
  constexpr std::string_view kGzip =
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\xcb\xcf\x4b\xe5\x2d\x29"
      "\xcf\xe7\x2d\xc9\x28\x4a\x4d\x05\x00\x5f\x4d\xb4\x79\x0d\x00\x00\x00"sv;
  for (const char* text : {"one\rtwo\rthree", "one\rtwo\rthree\r", "one\r\ntwo\rthree\n"}) {
    EXPECT_EQ(run_command(model, text).out, three) << text;
    EXPECT_EQ(predict(text).out, three) << text;
  }
  const std::string file = write_lines(*folder_ / "lines.txt.gz", std::string(kGzip));
  EXPECT_EQ(run_well(joined_words(model, {"--file", file})), three);
  const ProgramEnd blank = predict("one\r\rthree");
  EXPECT_TRUE(says(blank.err, "passed over 1 blank line, which have no answer: 2")) << blank.err;
}

}  // namespace
}  // namespace lockstep
