// Tests the answers of commands to unknown words and to numbers out of range, and their help.
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "lockstep/base/files/atomic_file.h"
#include "tests/commands/run_command.h"

namespace lockstep {
namespace {

struct WrongCommand {
  const char* name;
  std::vector<std::string> words;
  const char* says;
};

class CommandLine : public ::testing::TestWithParam<WrongCommand> {};

TEST_P(CommandLine, NamesTheWordThatIsWrong) {
  const ProgramEnd end = run_command(GetParam().words);
  EXPECT_EQ(end.code, 2) << end.err;
  EXPECT_NE(end.err.find(GetParam().says), std::string::npos) << end.err;
}

INSTANTIATE_TEST_SUITE_P(
    Table, CommandLine,
    ::testing::Values(WrongCommand{"a_required_flag_misspelt",
                                   {"sampler", "--dataset-sise", "10"},
                                   "unknown flag '--dataset-sise'; did you mean '--dataset-size'?"},
                      WrongCommand{"a_misspelt_flag_behind_words_that_are_part_of_the_message",
                                   {"sampler", "--dataset-size", "3", "--sed", "3"},
                                   "unknown flag '--sed'; did you mean '--seed'?"},
                      WrongCommand{"a_subcommand_misspelt", {"verfy"}, "did you mean 'verify'?"},
                      WrongCommand{
                          "several_words_that_are_missing", {"train"}, "--task, --model, --train-file are required"},
                      WrongCommand{"a_batch_size_of_transformers",
                                   {"train", "--per_device_batch_size=8"},
                                   "did you mean '--per-device-train-batch-size'?"},
                      WrongCommand{"another_word", {"finetune"}, "did you mean 'train'?"},
                      WrongCommand{"a_number_beyond_64_bits",
                                   {"sampler", "--dataset-size", "10", "--seed", "18446744073709551616"},
                                   "--seed: the number 18446744073709551616 is out of range"}),
    [](const auto& test) { return test.param.name; });

// docs/troubleshooting.md shows commands with a wrong word, each with the line that answers it.
TEST(CommandHelp, AnswersHabitsOfOtherProgramsAsThePageSays) {
  std::istringstream page(read_file(LOCKSTEP_SOURCE_DIR "/docs/troubleshooting.md"));
  const std::string prompt = "$ lockstep ";
  std::size_t mistakes = 0;
  std::string line;
  while (std::getline(page, line) && line != "### Flags typed by habit") continue;
  while (std::getline(page, line) && line.rfind("## ", 0) != 0) {
    if (line.rfind(prompt, 0) != 0) continue;
    std::istringstream typed(line.substr(prompt.size()));
    CommandWords words;
    for (std::string word; typed >> word;) words.push_back(word);
    std::getline(page, line);
    const ProgramEnd end = run_command(words);
    EXPECT_EQ(end.code, 2) << end.err;
    EXPECT_TRUE(says(end.err, "error: " + line + "\n")) << end.err;
    ++mistakes;
  }
  EXPECT_EQ(mistakes, 12U);
}

TEST(CommandHelp, OfEverySubcommandListsFlagsAndExamples) {
  const std::string overview = run_well({"--help"});
  for (const char* name :
       {"run",     "launch",          "config",    "slurm",         "kubernetes", "chaos",  "train",   "evaluate",
        "predict", "estimate-memory", "test",      "env",           "verify",     "trace",  "sampler", "model",
        "data",    "tokenize",        "tokenizer", "merge-weights", "inspect",    "report", "doctor",  "completions"}) {
    EXPECT_TRUE(says(overview, std::string("\n  ") + name + " ")) << overview;
    const ProgramEnd help = run_command({name, "--help"});
    EXPECT_EQ(help.code, 0) << name;
    EXPECT_TRUE(says(help.out, "--help") && says(help.out, "Examples:\n")) << help.out;
    EXPECT_EQ(help.err, "");
    EXPECT_EQ(run_command({"help", name}).out, help.out);
  }
}

// On one screen of 50 lines and 80 columns, with each subcommand in one group.
TEST(CommandHelp, OfAllFitsAScreen) {
  std::istringstream overview(run_well({"--help"}));
  std::size_t lines = 0, named = 0;
  for (std::string line; std::getline(overview, line); ++lines) {
    EXPECT_LE(line.size(), 80U) << line;
    if (line.rfind("  ", 0) == 0) ++named;
  }
  EXPECT_LE(lines, 50U);
  EXPECT_EQ(named, entries_of_this_process().size());
}

TEST(CommandHelp, OfAJobNamesTheProgramBehindTheFlags) {
  for (const char* name : {"run", "launch", "slurm", "chaos"}) {
    const std::string help = run_well({name, "--help"});
    EXPECT_TRUE(says(help, std::string("Usage: lockstep ") + name + " [FLAGS] ")) << help;
    EXPECT_EQ(help.find("[OPTIONS]"), std::string::npos) << help;
  }
}

TEST(CommandHelp, SaysItsVersionInSeveralWays) {
  for (const char* word : {"--version", "-V", "version"})
    EXPECT_EQ(run_well({word}).rfind("lockstep 0.", 0), 0U) << word;
}

}  // namespace
}  // namespace lockstep
