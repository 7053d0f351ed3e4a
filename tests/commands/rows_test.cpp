// What the rows of a file become: quotes that are plain characters, files without a header, and texts that are packed
// for language modelling. The packing is that of transformers' run_clm.py with datasets 5.2, tried beside it.
#include <gtest/gtest.h>

#include <algorithm>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "lockstep/base/files/atomic_file.h"
#include "tests/commands/run_command.h"
#include "tests/e2e/train/review_classification.h"
#include "tests/support/table_training.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/write_lines.h"

namespace lockstep {
namespace {

// A classifier of reviews after one step.
CommandWords row_training(const std::string& file, const std::string& output) {
  return without_program(
      text_classification(file, output, {"--max-steps", "1", "--save-strategy", "no", "--max-length", "8"}));
}

// As GLUE's files: quotes stand where the text has them.
constexpr const char* kPlainQuotedTable =
    "text\tlabel\ngood\ta\n\"bad\tb\nfine\ta\nworse\"\tb\n\"so so\" it is\tb\nbetter\ta\n";

TEST(RowsOfTables, QuotesArePlainCharactersIfAFlagSaysSo) {
  const TemporaryFolder folder;
  const std::string file = write_lines(folder / "rte.tsv", kPlainQuotedTable);
  const std::string out = folder / "out";
  const ProgramEnd quoted = run_command(row_training(file, out));
  EXPECT_EQ(quoted.code, 1);
  EXPECT_TRUE(says(quoted.err, "--quoting none")) << quoted.err;
  const CommandWords none{"--quoting", "none"};
  run_well(joined_words(row_training(file, out), none));
  const std::string evaluated =
      run_well(joined_words({"evaluate", "--task", "text-classification", "--model", out, "--validation-file", file,
                             "--output-dir", folder / "evaluated", "--save"},
                            none));
  const auto results = nlohmann::json::parse(read_file(folder / "evaluated/eval_results.json"));
  EXPECT_TRUE(results.contains("eval_accuracy")) << results.dump();
  const ProgramEnd predicted = run_command(joined_words({"predict", "--model", out, "--file", file, "--json"}, none));
  EXPECT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_EQ(std::count(predicted.out.begin(), predicted.out.end(), '\n'), 6) << predicted.out;
  EXPECT_TRUE(says(predicted.out, R"("text":"\"bad")")) << predicted.out;
  for (const CommandWords& flag : {none, CommandWords{"--no-quotes"}}) {
    EXPECT_TRUE(says(run_well(joined_words({"inspect", file, "--json"}, flag)), "\"rows\": 6"));
  }
}

// Rows of a table of numbers, one of whose colours begins with a quote.
std::string rows_of_numbers(const std::string& header) {
  std::string text = header;
  for (int i = 0; i < 60; ++i) {
    text += std::to_string(i % 17) + (i % 3 == 0 ? ";\"red;" : ";blue;") + (i % 17 > 8 ? "tall\n" : "short\n");
  }
  return text;
}

TEST(RowsOfTables, TablesOfNumbersAreReadAsFlagsSay) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "named.csv", rows_of_numbers("height;colour;label\n"));
  write_file_atomically(folder / "plain.csv", rows_of_numbers(""));
  const CommandWords written{"--quoting", "none", "--delimiter", ";"};
  const auto train = [&](const std::string& name, const CommandWords& more) {
    const CommandWords flags{"--max-steps",           "3", "--save-strategy", "no", "--validation-file",
                             folder / (name + ".csv")};
    return run_command(
        joined_words(joined_words(table_training(folder / (name + ".csv"), folder / name, flags), written), more));
  };
  const CommandWords no_header{"--no-header", "--label-column", "3"};
  for (const auto& [name, more] : {std::pair{"named", CommandWords{}}, std::pair{"plain", no_header}}) {
    const ProgramEnd end = train(name, more);
    ASSERT_EQ(end.code, 0) << end.err;
  }
  EXPECT_TRUE(read_file(folder / "named/model.safetensors") == read_file(folder / "plain/model.safetensors"));
  const auto answers = [&](const std::string& name, const CommandWords& more) {
    return run_command(joined_words(
        joined_words({"predict", "--model", folder / name, "--file", folder / (name + ".csv"), "--json"}, written),
        more));
  };
  const ProgramEnd named = answers("named", {}), plain = answers("plain", {"--no-header"});
  EXPECT_EQ(named.code, 0) << named.err;
  EXPECT_EQ(named.out, plain.out) << plain.err;
  EXPECT_EQ(std::count(plain.out.begin(), plain.out.end(), '\n'), 60) << plain.out;
  run_well(joined_words(joined_words({"evaluate", "--task", "tabular-classification", "--model", folder / "plain",
                                      "--validation-file", folder / "plain.csv"},
                                     written),
                        {"--no-header"}));
}

TEST(RowsOfTables, TablesOfNumbersSayWhichColumnIsMissing) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "named.csv", rows_of_numbers("height;colour;label\n"));
  write_file_atomically(folder / "plain.csv", rows_of_numbers(""));
  const auto refusal = [&](const std::string& file, const CommandWords& more) {
    const CommandWords written{"--quoting", "none", "--delimiter", ";", "--max-steps", "1", "--save-strategy", "no"};
    const ProgramEnd end = run_command(joined_words(table_training(folder / file, folder / "out", written), more));
    EXPECT_NE(end.code, 0) << end.out;
    return end.err;
  };
  EXPECT_TRUE(says(refusal("plain.csv", {}), "if the file has no header: --no-header"));
  EXPECT_TRUE(says(refusal("plain.csv", {"--no-header"}), "give --label-column 3"));
  run_well(joined_words(table_training(folder / "named.csv", folder / "model", {"--max-steps", "1"}),
                        {"--quoting", "none", "--delimiter", ";", "--save-strategy", "no"}));
  const ProgramEnd end = run_command({"predict", "--model", folder / "model", "--file", folder / "plain.csv",
                                      "--quoting", "none", "--delimiter", ";", "--no-header"});
  EXPECT_EQ(end.code, 2) << end.out;
  EXPECT_TRUE(says(end.err, "height")) << end.err;
  EXPECT_TRUE(says(end.err, "leave --no-header out")) << end.err;
}

TEST(RowsOfTables, JoinedLinesAreSaidByATraining) {
  const TemporaryFolder folder;
  const std::string file =
      write_lines(folder / "quotes.tsv", "text\tlabel\ngood\ta\n\"bad\tb\nfine\ta\nworse\"\tb\nbetter\ta\n");
  const ProgramEnd end = run_command(row_training(file, folder / "out"));
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(says(end.err, "1 quoted field joins 3 lines, the first at " + file + ":3:1")) << end.err;
}

TEST(RowsOfTables, WithoutAHeaderColumnsAreNumbered) {
  const TemporaryFolder folder;
  const std::string file = write_lines(folder / "bare.csv", "a,good,1\nb,\"bad, really\",2\na,fine,3\n");
  const std::string out = folder / "out";
  const ProgramEnd without = run_command(row_training(file, out));
  EXPECT_EQ(without.code, 2);
  EXPECT_TRUE(says(without.err, "--no-header and the columns' numbers: --text-column 2")) << without.err;
  const CommandWords bare{"--no-header", "--text-column", "2"};
  run_well(joined_words(joined_words(row_training(file, out), bare), {"--label-column", "1"}));
  run_well(joined_words(joined_words({"evaluate", "--task", "text-classification", "--model", out, "--validation-file",
                                      file, "--output-dir", folder / "evaluated", "--save"},
                                     bare),
                        {"--label-column", "1"}));
  const auto results = nlohmann::json::parse(read_file(folder / "evaluated/eval_results.json"));
  EXPECT_TRUE(results.contains("eval_accuracy")) << results.dump();
  const ProgramEnd predicted = run_command(joined_words({"predict", "--model", out, "--file", file, "--json"}, bare));
  EXPECT_TRUE(says(predicted.out, R"("text":"good")")) << predicted.out << predicted.err;
  EXPECT_TRUE(says(run_well({"inspect", file, "--no-header", "--json"}), "\"rows\": 3"));
  const ProgramEnd unnamed = run_command(joined_words(row_training(file, out), {"--no-header"}));
  EXPECT_TRUE(says(unnamed.err, "the columns are 1, 2, 3")) << unnamed.err;
  const ProgramEnd named = run_command(
      joined_words(row_training(file, out), {"--no-header", "--text-column", "review", "--label-column", "1"}));
  EXPECT_TRUE(says(named.err, "name one of them, such as --text-column 1 --label-column 2")) << named.err;
  const std::string lines = write_lines(folder / "rows.jsonl", "{\"text\": \"good\", \"label\": \"a\"}\n");
  const ProgramEnd foreign = run_command(joined_words(row_training(lines, out), {"--no-header"}));
  EXPECT_EQ(foreign.code, 2);
  EXPECT_TRUE(says(foreign.err, "is not a table")) << foreign.err;
}

TEST(RowsOfTables, RowsThatAreLeftOutAreCounted) {
  const TemporaryFolder folder;
  const std::string file = write_lines(folder / "some.csv", "text,label\ngood,a\n\xff,a\n,b\nbad,b\nfine,\n");
  const ProgramEnd end =
      run_command(joined_words(row_training(file, folder / "out"),
                               {"--invalid-texts", "skip", "--empty-texts", "skip", "--missing-labels", "skip"}));
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(says(end.err, "left out 3 of 5 rows: 1 for their label, 1 for an empty text, 1 for invalid bytes"))
      << end.err;
  const ProgramEnd second =
      run_command(joined_words(row_training(file, folder / "out"),
                               {"--invalid-texts", "skip", "--empty-texts", "skip", "--missing-labels", "skip"}),
                  "", {{"RANK", "1"}, {"WORLD_SIZE", std::nullopt}});
  EXPECT_FALSE(says(second.err, "left out")) << "rank 0 alone says it: " << second.err;
}

class PackedTexts : public ::testing::Test {
 protected:
  // The line about a file's blocks, and the loss on it, of a GPT-2 whose tokens are bytes.
  struct Evaluated {
    std::string line;
    double loss = 0;
  };
  void SetUp() override {
    const std::string file = write_lines(folder_ / "train.txt", std::string(40, 'a') + "\n");
    run_well({"train", "--task", "language-modeling", "--model", "gpt2-tiny", "--tokenizer", kShipped + "bytes-vocab",
              "--train-file", file, "--output-dir", folder_ / "gpt2", "--max-steps", "1", "--save-strategy", "no",
              "--block-size", "8"});
  }
  Evaluated evaluate(const std::string& name, const std::string& content, const CommandWords& more = {}) {
    const std::string file = write_lines(folder_ / name, content);
    const std::string out = run_well(
        joined_words({"evaluate", "--task", "language-modeling", "--model", folder_ / "gpt2", "--validation-file", file,
                      "--output-dir", folder_ / "evaluated", "--save", "--block-size", "4"},
                     more));
    const std::size_t at = out.find(file + ": ");
    const auto results = nlohmann::json::parse(read_file(folder_ / "evaluated/eval_results.json"));
    return {at == std::string::npos ? out : out.substr(at + file.size() + 2, out.find('\n', at) - at - file.size() - 2),
            results.at("eval_loss")};
  }
  TemporaryFolder folder_;
};

// "ab\n\ncd\nefgh" has 11 bytes, so 11 tokens.
TEST_F(PackedTexts, KeepTheirLineBreaks) {
  const Evaluated kept = evaluate("a.txt", "ab\n\ncd\nefgh");
  EXPECT_EQ(kept.line,
            "4 rows, 11 tokens: 2 blocks of 4; 3 tokens after the last whole block of each 1000 rows are left out, as "
            "in run_clm.");
  // The same texts as rows of a table, which says where their line breaks are.
  const Evaluated table = evaluate("a.csv", "text\n\"ab\n\"\n\"\n\"\n\"cd\n\"\nefgh\n");
  EXPECT_EQ(table.line, kept.line);
  EXPECT_EQ(table.loss, kept.loss);
  EXPECT_EQ(evaluate("b.txt", "ab\r\n\r\ncd\refgh").loss, kept.loss);

  const Evaluated without = evaluate("a.txt", "ab\n\ncd\nefgh", {"--keep-linebreaks", "false"});
  EXPECT_TRUE(says(without.line, "4 rows, 8 tokens: 2 blocks of 4; 0 tokens")) << without.line;
  EXPECT_EQ(without.loss, evaluate("c.csv", "text\nabcdefgh\n").loss);
  EXPECT_TRUE(says(evaluate("a.txt", "ab\ncd", {"--append-eos"}).line, "2 rows, 7 tokens: 1 blocks of 4; 3 tokens"));
}

TEST_F(PackedTexts, AreCutInGroupsOfAThousandRows) {
  std::string text;
  for (int i = 0; i < 1001; ++i) text += "abcde\n";
  // 1000 rows have 6000 tokens: 857 blocks of 7, and one token is left. The last row has 6 tokens, and no block.
  const Evaluated packed = evaluate("many.txt", text, {"--block-size", "7"});
  EXPECT_TRUE(says(packed.line, "1001 rows, 6006 tokens: 857 blocks of 7; 7 tokens")) << packed.line;
  const Evaluated first = evaluate("many.txt", text, {"--block-size", "7", "--max-eval-samples", "1"});
  EXPECT_EQ(first.loss, evaluate("one.txt", "abcde\na", {"--block-size", "7"}).loss);
}

// Blank lines are [CLS] [SEP] alone, and special tokens are never masked: there is no loss, and a line all the same.
TEST(StepsWithoutLabels, HaveALineInTheLog) {
  const TemporaryFolder folder;
  const std::string file = write_lines(folder / "blank.txt", std::string(8, '\n'));
  const std::string out = run_well({"train",
                                    "--task",
                                    "language-modeling",
                                    "--mlm",
                                    "--model",
                                    "bert-tiny",
                                    "--tokenizer",
                                    kShipped + "reviews-vocab",
                                    "--train-file",
                                    file,
                                    "--output-dir",
                                    folder / "out",
                                    "--max-steps",
                                    "3",
                                    "--logging-steps",
                                    "1",
                                    "--save-strategy",
                                    "no",
                                    "--block-size",
                                    "2",
                                    "--per-device-train-batch-size",
                                    "2"});
  std::size_t lines = 0;
  for (std::size_t at = 0; (at = out.find("'learning_rate'", at)) != std::string::npos; ++at) ++lines;
  EXPECT_EQ(lines, 3U) << out;
  EXPECT_FALSE(says(out, "'loss'")) << out;
  EXPECT_FALSE(says(out, "nan")) << out;
}

TEST_F(PackedTexts, ThatFillNoBlockAreRefusedWithTheirNumbers) {
  const std::string file = write_lines(folder_ / "short.txt", "ab\n");
  const ProgramEnd end = run_command({"evaluate", "--task", "language-modeling", "--model", folder_ / "gpt2",
                                      "--validation-file", file, "--block-size", "8"});
  EXPECT_EQ(end.code, 2);
  EXPECT_TRUE(says(end.err, "no block is full")) << end.err;
  EXPECT_TRUE(says(end.err, "1 rows, 3 tokens: 0 blocks of 8")) << end.err;
}

}  // namespace
}  // namespace lockstep
