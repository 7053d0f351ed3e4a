// Tests the command's answers to unknown words and to numbers out of range.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/running_program.h"

namespace lockstep {
namespace {

struct WrongCommand {
  const char* name;
  std::vector<std::string> words;
  const char* says;
};

class CommandLine : public ::testing::TestWithParam<WrongCommand> {};

TEST_P(CommandLine, NamesTheWordThatIsWrong) {
  std::vector<std::string> command = GetParam().words;
  command.insert(command.begin(), std::string(LOCKSTEP_BIN_DIR) + "/lockstep");
  const ProgramEnd end = run_program(command);
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
                      WrongCommand{"a_benchmark_that_is_not_there", {"bench", "nosuch"}, "unknown argument 'nosuch'"},
                      WrongCommand{"a_subcommand_misspelt", {"verfy"}, "did you mean 'verify'?"},
                      WrongCommand{"a_number_beyond_64_bits",
                                   {"sampler", "--dataset-size", "10", "--seed", "18446744073709551616"},
                                   "--seed: the number 18446744073709551616 is out of range"},
                      WrongCommand{"no_ranks", {"bench", "step", "--ranks", "0"}, "Value 0 not in range 1 to 64"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lockstep
