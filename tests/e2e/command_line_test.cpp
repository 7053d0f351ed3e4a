// Tests the program `lockstep` with each of its subcommands: it finds its companions, reads its standard input, and
// keeps output, errors and exit code apart. What the subcommands answer is tested in tests/commands/, without
// processes.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/running_program.h"

namespace lockstep {
namespace {

struct CommandOfProgram {
  const char* name;
  std::string words;
  int code;
  const char* out;  // what its output has; null: nothing is written
  const char* err;  // as above
  const char* input = "";
};

const std::string kShippedTokenizer = std::string(LOCKSTEP_SOURCE_DIR) + "/data/reviews-vocab";

class ProgramLockstep : public ::testing::TestWithParam<CommandOfProgram> {};

void expect_written(const std::string& text, const char* part) {
  if (part == nullptr) {
    EXPECT_EQ(text, "");
  } else {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

TEST_P(ProgramLockstep, KeepsOutputErrorsAndExitCodeApart) {
  const ProgramEnd end = run_program(
      {"sh", "-c",
       std::string("printf '") + GetParam().input + "' | " LOCKSTEP_BIN_DIR "/lockstep " + GetParam().words});
  EXPECT_EQ(end.code, GetParam().code) << end.err;
  expect_written(end.out, GetParam().out);
  expect_written(end.err, GetParam().err);
}

INSTANTIATE_TEST_SUITE_P(
    Table, ProgramLockstep,
    ::testing::Values(
        CommandOfProgram{"an_overview", "--help", 0, "Start a job:\n  run ", nullptr},
        CommandOfProgram{"nothing", "", 2, "Usage: lockstep SUBCOMMAND", nullptr},
        CommandOfProgram{"a_version", "--version", 0, "lockstep 0.", nullptr},
        CommandOfProgram{"an_unknown_subcommand", "verfy", 2, nullptr, "did you mean 'verify'?"},
        CommandOfProgram{"help_of_a_companion", "help sampler", 0, "--dataset-size", nullptr},
        CommandOfProgram{"tokenize", "tokenize --json --tokenizer " + kShippedTokenizer, 0, "[\"[CLS]\",\"the\"",
                         nullptr, "the\\n"},
        CommandOfProgram{"completions", "completions bash", 0, "--gradient-accumulation-steps", nullptr},
        CommandOfProgram{"slurm", "slurm -- ./train", 0, "#SBATCH", nullptr},
        CommandOfProgram{"kubernetes", "kubernetes --image train:1 -- ./train", 0, "kind: Job", nullptr},
        CommandOfProgram{"tokenizer", "tokenizer train", 2, nullptr, "lockstep tokenizer train: error: "},
        CommandOfProgram{"sampler", "sampler --dataset-size 1", 0, "[0]\n", nullptr},
        CommandOfProgram{"data", "data get cifar", 2, nullptr, "lockstep data get: error: "},
        CommandOfProgram{"model", "model get ../etc", 2, nullptr, "lockstep model: error: "},
        CommandOfProgram{"inspect", "inspect " + kShippedTokenizer, 0, "2000", nullptr},
        CommandOfProgram{"report", "report /nowhere", 1, nullptr, "lockstep report: error: "},
        CommandOfProgram{"merge_weights", "merge-weights /nowhere merged", 2, nullptr, "there is no folder /nowhere"},
        CommandOfProgram{"doctor", "doctor --steps heart", 2, nullptr, "heart"},
        CommandOfProgram{"verify", "verify --tolerance nan", 2, nullptr, "--tolerance is nan"},
        CommandOfProgram{"trace", "trace --model mlp --devices tpu:0", 2, nullptr, "is not a device for a replica"},
        CommandOfProgram{"estimate_memory", "estimate-memory bert-gigantic", 2, nullptr, "bert-gigantic"},
        CommandOfProgram{"predict", "predict --model /nowhere", 2, nullptr, "there is no folder /nowhere"},
        CommandOfProgram{"a_benchmark_that_is_not_there", "bench nosuch", 2, nullptr, "unknown argument 'nosuch'"},
        CommandOfProgram{"no_ranks", "bench step --ranks 0", 2, nullptr, "Value 0 not in range 1 to 64"},
        CommandOfProgram{"a_misspelt_flag_of_a_benchmark", "bench step --sampels 3", 2, nullptr,
                         "unknown flag '--sampels'\n  fix: 'lockstep bench step --help'"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lockstep
