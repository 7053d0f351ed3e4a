// The delimiter of a table: the one that a flag gives, or else what the end of the file's own name says.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "lockstep/base/files/atomic_file.h"
#include "tests/commands/run_command.h"
#include "tests/e2e/train/review_classification.h"
#include "tests/support/table_training.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/write_lines.h"

namespace lockstep {
namespace {

std::string with_delimiter(std::string text, char delimiter) {
  std::replace(text.begin(), text.end(), ',', delimiter);
  return text;
}

// The weights after a step on a table.
std::string weights_of_table(const std::string& file, const std::string& output, const CommandWords& more = {}) {
  run_well(joined_words(table_training(file, output, {"--max-steps", "1", "--save-strategy", "no"}), more));
  return read_file(output + "/model.safetensors");
}

TEST(Dialects, AreDecidedByTheEndOfTheFilesOwnName) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "d.tsv.x");
  const std::string commas = weights_of_table(write_lines(folder / "t.csv", table_text(40)), folder / "out");
  for (const char* name : {"d.tsv.x/t.csv", "t.tsv.bak.csv", "t.tsv.old"}) {
    EXPECT_TRUE(weights_of_table(write_lines(folder / name, table_text(40)), folder / "out") == commas) << name;
  }
  for (const char* name : {"d.tsv.x/t.tsv", "t.csv.tsv", "T.TSV"}) {
    const std::string file = write_lines(folder / name, with_delimiter(table_text(40), '\t'));
    EXPECT_TRUE(weights_of_table(file, folder / "out") == commas) << name;
  }
}

TEST(Dialects, AreThoseOfAFlagWhateverTheNameSays) {
  const TemporaryFolder folder;
  const std::string file = write_lines(folder / "t.tsv", with_delimiter(table_text(40), ';'));
  const std::string commas = weights_of_table(write_lines(folder / "t.csv", table_text(40)), folder / "commas");
  const CommandWords flag{"--delimiter", ";"};
  EXPECT_TRUE(weights_of_table(file, folder / "out", flag) == commas);
  EXPECT_TRUE(weights_of_table(write_lines(folder / "u.tsv", table_text(40)), folder / "out", {"--delimiter", ","}) ==
              commas);
  const CommandWords predict{"predict", "--model", folder / "commas", "--json", "--file"};
  EXPECT_EQ(run_well(joined_words(joined_words(predict, {file}), flag)),
            run_well(joined_words(predict, {folder / "t.csv"})));
  run_well(joined_words(
      {"evaluate", "--task", "tabular-classification", "--model", folder / "commas", "--validation-file", file}, flag));
  EXPECT_TRUE(says(run_well(joined_words({"inspect", "--json", file}, flag)), "\"colour\""));
  const std::string with_tabs = run_command(table_training(file, folder / "out", {"--max-steps", "1"})).err;
  EXPECT_TRUE(says(with_tabs, "there is no column \"label\"")) << with_tabs;
  EXPECT_TRUE(says(with_tabs, "give --delimiter ';'")) << with_tabs;
}

TEST(Dialects, OfTextsAreThoseOfAFlagToo) {
  const TemporaryFolder folder;
  const std::string file = write_lines(folder / "t.tsv", "text;label\ngood;a\nbad\t;b\n");
  const CommandWords flag{"--delimiter", ";"};
  const auto train = [&](const std::string& path, const CommandWords& more) {
    return run_command(joined_words(
        without_program(text_classification(path, folder / "out", {"--max-steps", "1", "--save-strategy", "no"})),
        more));
  };
  const ProgramEnd end = train(file, flag);
  EXPECT_EQ(end.code, 0) << end.err;
  const ProgramEnd without = train(file, {});
  EXPECT_EQ(without.code, 2);
  EXPECT_TRUE(says(without.err, "give --delimiter ';'")) << without.err;
  const ProgramEnd predicted =
      run_command(joined_words({"predict", "--model", folder / "out", "--json", "--file", file}, flag));
  EXPECT_TRUE(says(predicted.out, R"("text":"bad\t")")) << predicted.out << predicted.err;
  const CommandWords vocabulary{"tokenizer", "train", "--output", folder / "vocab", "--column", "text", file};
  run_well(joined_words(vocabulary, flag));
  // A flag that says how fields are separated, and a file that has none.
  const std::string lines = write_lines(folder / "rows.jsonl", "{\"text\": \"good\", \"label\": \"a\"}\n");
  for (const CommandWords& form : {flag, CommandWords{"--quoting", "none"}}) {
    const ProgramEnd foreign = train(lines, form);
    EXPECT_EQ(foreign.code, 2);
    EXPECT_TRUE(says(foreign.err, form[0] + " cannot be used: " + lines + " is not a table")) << foreign.err;
  }
}

}  // namespace
}  // namespace lockstep
