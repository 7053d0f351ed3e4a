// Tests the answers of commands to unknown words and to numbers out of range, and their help.
#include <gtest/gtest.h>

#include <string>
#include <vector>

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
                      WrongCommand{"a_number_beyond_64_bits",
                                   {"sampler", "--dataset-size", "10", "--seed", "18446744073709551616"},
                                   "--seed: the number 18446744073709551616 is out of range"}),
    [](const auto& test) { return test.param.name; });

TEST(CommandHelp, OfEverySubcommandListsFlagsAndExamples) {
  const std::string overview = run_well({"--help"});
  for (const char* name :
       {"run",     "launch",          "config",    "slurm",         "kubernetes", "chaos",  "train",   "evaluate",
        "predict", "estimate-memory", "test",      "env",           "verify",     "trace",  "sampler", "model",
        "data",    "tokenize",        "tokenizer", "merge-weights", "inspect",    "report", "doctor"}) {
    EXPECT_TRUE(says(overview, std::string("\n  ") + name + " ")) << overview;
    const ProgramEnd help = run_command({name, "--help"});
    EXPECT_EQ(help.code, 0) << name;
    EXPECT_TRUE(says(help.out, "--help") && says(help.out, "Examples:\n")) << help.out;
    EXPECT_EQ(help.err, "");
    EXPECT_EQ(run_command({"help", name}).out, help.out);
  }
}

}  // namespace
}  // namespace lockstep
