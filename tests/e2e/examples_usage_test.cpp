// Tests the examples' output for --help, and for arguments that name something missing.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

ProgramEnd run_example(const std::string& name, const std::vector<std::string>& flags) {
  std::vector<std::string> words{std::string(LOCKSTEP_BIN_DIR) + "/" + name};
  words.insert(words.end(), flags.begin(), flags.end());
  return run_program(words, {{"RANK", "0"}, {"WORLD_SIZE", "1"}});
}

bool text_has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct ExampleUsage {
  const char* program;
  std::string default_value;
  std::vector<std::string> nonsense;
  std::string blamed;
  friend std::ostream& operator<<(std::ostream& out, const ExampleUsage& c) { return out << c.program; }
};
class ExamplesUsage : public ::testing::TestWithParam<ExampleUsage> {};

TEST_P(ExamplesUsage, HelpShowsExamplesAndDefaults) {
  const ProgramEnd end = run_example(GetParam().program, {"--help"});
  EXPECT_EQ(end.code, 0);
  EXPECT_TRUE(text_has(end.out, "Examples:\n  ")) << end.out;
  // CLI11 prints "=VALUE", and "[VALUE]" since 2.4.
  const std::string value = GetParam().default_value;
  EXPECT_TRUE(text_has(end.out, "=" + value) || text_has(end.out, "[" + value + "]")) << end.out;
}

TEST_P(ExamplesUsage, WhatIsNotUnderstoodEndsWithTwo) {
  const ProgramEnd flag = run_example(GetParam().program, {"--wings"});
  EXPECT_EQ(flag.code, 2);
  EXPECT_TRUE(text_has(flag.err, "--wings")) << flag.err;
  const ProgramEnd value = run_example(GetParam().program, GetParam().nonsense);
  EXPECT_EQ(value.code, 2);
  EXPECT_TRUE(text_has(value.err, GetParam().blamed)) << value.err;
}

INSTANTIATE_TEST_SUITE_P(Table, ExamplesUsage,
                         ::testing::Values(ExampleUsage{"ddp_mnist", "0.0001", {"--epochs", "0"}, "--epochs"},
                                           ExampleUsage{"gpt2_lm", "gpt2-tiny", {"--seq_len", "0"}, "--seq_len"}),
                         [](const auto& test) { return test.param.program; });
INSTANTIATE_TEST_SUITE_P(
    TableLong, ExamplesUsage,
    ::testing::Values(ExampleUsage{"ddp_reviews", "bert-tiny", {"--max_length", "0"}, "--max_length"},
                      ExampleUsage{"fsdp_gpt2", "GPT2Block", {"--steps", "0"}, "--steps"}),
    [](const auto& test) { return test.param.program; });

// Seconds: five processes load LibTorch.
TEST(ExamplesEnd, ThoseOfTheTrainerEndWithTwoAsWell) {
  for (const char* program : {"trainer_reviews", "trainer_dataparallel", "oslo_gpt2"}) {
    const ProgramEnd flag = run_example(program, {"--wings"});
    EXPECT_EQ(flag.code, 2) << program;
    EXPECT_TRUE(text_has(flag.err, "--wings")) << flag.err;
  }
  const ProgramEnd value = run_example("trainer_reviews", {"--eval-strategy", "epochs"});
  EXPECT_EQ(value.code, 2);
  EXPECT_TRUE(text_has(value.err, "did you mean 'epoch'")) << value.err;
  const ProgramEnd none = run_example("kdd_mlp", {"--train", "a", "--test", "b", "--epochs", "0"});
  EXPECT_EQ(none.code, 2);
  EXPECT_TRUE(text_has(none.err, "--epochs")) << none.err;
  EXPECT_LT(none.err.size(), 200U) << none.err;
}

// A learning rate that makes every training diverge, on the shipped data with small models.
struct ExampleLoop {
  const char* program;
  bool on_ranks;
  std::vector<std::string> flags;
  friend std::ostream& operator<<(std::ostream& out, const ExampleLoop& loop) { return out << loop.program; }
};
class ExamplesLoop : public ::testing::TestWithParam<ExampleLoop> {};

const std::string kShippedData = std::string(LOCKSTEP_SOURCE_DIR) + "/data/";

TEST_P(ExamplesLoop, ALossThatIsNoNumberEndsTheTraining) {
  const TemporaryFolder folder;
  std::vector<std::string> flags = GetParam().flags;
  if (std::find(flags.begin(), flags.end(), "DIGITS") != flags.end()) {
    const ProgramEnd made =
        run_example("lockstep", {"data", "digits", "--output", folder / "digits", "--train", "200", "--test", "20"});
    ASSERT_EQ(made.code, 0) << made.err;
    std::replace(flags.begin(), flags.end(), std::string("DIGITS"), folder / "digits");
  }
  std::string program = GetParam().program;
  if (GetParam().on_ranks) {
    flags.insert(flags.begin(), {"run", "--nproc-per-node", "2", std::string(LOCKSTEP_BIN_DIR) + "/" + program});
    program = "lockstep";
  }
  const ProgramEnd end = run_example(program, flags);
  EXPECT_EQ(end.code, 1) << end.out;
  EXPECT_TRUE(text_has(end.err, "the loss is NaN or infinite")) << end.err;
  EXPECT_TRUE(text_has(end.err, "epoch 1, step ")) << end.err;
}
INSTANTIATE_TEST_SUITE_P(
    Table, ExamplesLoop,
    ::testing::Values(ExampleLoop{"dp_nli",
                                  false,
                                  {"--tokenizer", kShippedData + "reviews-vocab", "--train", kShippedData + "pairs.csv",
                                   "--steps", "50", "--replicas", "1", "--lr", "1e30"}},
                      ExampleLoop{
                          "mnist", false, {"--data", "DIGITS", "--batch_size", "20", "--epochs", "5", "--lr", "1e30"}},
                      ExampleLoop{"gpt2_lm",
                                  true,
                                  {"--tokenizer", kShippedData + "bytes-vocab", "--data", kShippedData + "reviews.csv",
                                   "--seq_len", "16", "--lr", "1e30"}}),
    [](const auto& test) { return test.param.program; });
INSTANTIATE_TEST_SUITE_P(
    TableLong, ExamplesLoop,
    ::testing::Values(
        ExampleLoop{"dp_sentiment",
                    false,
                    {"--tokenizer", kShippedData + "reviews-vocab", "--data", kShippedData + "reviews.csv",
                     "--replicas", "2", "--lr", "1e30"}},
        ExampleLoop{
            "accelerate_mnist", false, {"--data", "DIGITS", "--batch_size", "20", "--epochs", "5", "--lr", "1e30"}},
        ExampleLoop{"ddp_mnist", true, {"--data", "DIGITS", "--batch_size", "20", "--lr", "1e30"}},
        ExampleLoop{"ddp_reviews",
                    true,
                    {"--tokenizer", kShippedData + "reviews-vocab", "--train", kShippedData + "reviews.csv", "--test",
                     kShippedData + "reviews-test.csv", "--max_length", "16", "--lr", "1e30"}}),
    [](const auto& test) { return test.param.program; });

class ExamplesModel : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(ExamplesModel, ThatIsNotThereIsNoSizeButAFolder) {
  const auto& [program, name] = GetParam();
  const std::string shipped = std::string(LOCKSTEP_SOURCE_DIR) + "/data/";
  std::vector<std::string> flags{"--model", "bert-base-cased"};
  if (program == std::string("ddp_reviews")) {
    flags.insert(flags.end(), {"--tokenizer", shipped + "reviews-vocab", "--train", shipped + "reviews.csv", "--test",
                               shipped + "reviews-test.csv"});
  } else {
    flags.insert(flags.end(), {"--tokenizer", shipped + "bytes-vocab", "--data", shipped + "reviews.csv"});
  }
  const ProgramEnd end = run_example(program, flags);
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(text_has(end.err, "there is no folder bert-base-cased")) << end.err;
  EXPECT_TRUE(text_has(end.err, name)) << "the names that exist\n" << end.err;
}

INSTANTIATE_TEST_SUITE_P(Table, ExamplesModel,
                         ::testing::Values(std::pair("ddp_reviews", "bert-mini"), std::pair("gpt2_lm", "gpt2-tiny")),
                         [](const auto& test) { return test.param.first; });

}  // namespace
}  // namespace lockstep
