// Tests `lockstep chaos`: what it refuses, and few faults against real trainings.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/e2e/train/review_classification.h"
#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_size.h"
#include "tools/hosts/network_hosts.h"

namespace lockstep {
namespace {

std::vector<std::string> chaos(const std::vector<std::string>& words) {
  return joined_words({std::string(LOCKSTEP_BIN_DIR) + "/lockstep", "chaos"}, words);
}

// The training of `text_classification` without its folder, which chaos chooses.
std::vector<std::string> training(const std::vector<std::string>& more) {
  std::vector<std::string> words = review_classification("", {});
  words.erase(words.end() - 4, words.end() - 2);  // --output-dir
  return joined_words(std::move(words), more);
}

ProgramEnd run_chaos(const std::vector<std::string>& flags, const std::string& steps) {
  return run_program(
      chaos(joined_words(joined_words(flags, {"--"}),
                         training({"--max-length", "32", "--per-device-train-batch-size", "4", "--virtual-shards", "4",
                                   "--logging-steps", "2", "--save-steps", "15", "--max-steps", steps}))),
      {}, std::chrono::seconds(300));
}

// The word behind `name` at the start of a line.
std::string value_of(const std::string& name, const std::string& text) {
  const std::size_t at = text.find("\n" + name);
  if (at == std::string::npos) return "";
  const std::size_t begin = text.find_first_not_of(' ', at + 1 + name.size());
  return text.substr(begin, text.find_first_of(" \n", begin) - begin);
}

// Seconds: two trainings by processes, of which one is disturbed.
TEST(Chaos, TheWeightsAreEqualAfterKillsAndPauses) {
  const std::string faults = std::to_string(test_size(1, 3)), ranks = std::to_string(test_size(2, 3));
  const ProgramEnd end = run_chaos(
      {"--nproc-per-node", ranks, "--faults", faults, "--interval", "0.1", "--kinds", "kill,pause", "--seed", "2"},
      "60");
  ASSERT_EQ(end.code, 0) << end.out << end.err;
  EXPECT_EQ(value_of("faults", end.out), faults) << end.out;
  EXPECT_EQ(value_of("survived", end.out), faults) << end.out;
  EXPECT_EQ(value_of("lost", end.out), "0") << end.out;
  EXPECT_EQ(value_of("weights", end.out).size(), 64U) << end.out;
  EXPECT_EQ(value_of("weights", end.out), value_of("undisturbed", end.out));
  EXPECT_EQ(value_of("checkpoints", end.out), "8") << "weights and optimizer of four checkpoints\n" << end.out;
}

// The time that the hosts need to give each other up is the test's.
TEST(ChaosLong, TheWeightsAreEqualAfterHostsAreLostAndCutOff) {
  if (const auto reason = NetworkHosts::why_not()) GTEST_SKIP() << *reason;
  const ProgramEnd end = run_chaos({"--hosts", "2", "--nproc-per-node", "1", "--faults", "4", "--interval", "0.1",
                                    "--kinds", "kill,host,blink,cut", "--seed", "5", "--timeout", "6"},
                                   "200");
  ASSERT_EQ(end.code, 0) << end.out << end.err;
  EXPECT_EQ(value_of("faults", end.out), "4") << end.out;
  EXPECT_EQ(value_of("survived", end.out), "4") << end.out;
  EXPECT_EQ(value_of("weights", end.out), value_of("undisturbed", end.out));
  EXPECT_NE(end.out.find(" on 2 ranks of 2 hosts, seed 5: "), std::string::npos) << end.out;
}

TEST(Chaos, ATrainingThatFailsByItselfIsShown) {
  const ProgramEnd end = run_chaos({"--faults", "1", "--nproc-per-node", "2"}, "4 --nosuch");
  EXPECT_EQ(end.code, 1);
  EXPECT_NE(end.err.find("the undisturbed training failed"), std::string::npos) << end.err;
  EXPECT_NE(end.err.find("is not a whole number"), std::string::npos) << end.err;
}

// A program that chaos takes for the training: `script` with $o for the output folder.
ProgramEnd run_against(const std::string& script, const std::vector<std::string>& flags) {
  const TemporaryFolder folder;
  const std::string program = folder / "lockstep";
  std::ofstream(program) << "#!/bin/sh\nfor o; do :; done; mkdir -p $o\n" << script << "\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  return run_program(chaos(joined_words(flags, {"--", program, "train"})), {}, std::chrono::seconds(120));
}

// Seconds: two jobs, which must still run when the fault comes.
TEST(Chaos, OtherWeightsAreAFailure) {
  const ProgramEnd end =
      run_against("touch $LOCKSTEP_SURVIVAL_FILE; [ $RANK = 1 ] || echo $$ > $o/model.safetensors; exec sleep 2",
                  {"--nproc-per-node", "3", "--faults", "1", "--interval", "0.1", "--kinds", "kill", "--no-spares"});
  EXPECT_EQ(end.code, 1) << end.out << end.err;
  EXPECT_NE(value_of("weights", end.out), value_of("undisturbed", end.out)) << end.out;
  EXPECT_EQ(value_of("lost", end.out), "unknown") << end.out;
  EXPECT_NE(end.out.find("model.safetensors differs"), std::string::npos) << end.out;
  EXPECT_GT(std::filesystem::remove_all(value_of("logs", end.out)), 0U) << end.out;
}

// Seconds: two jobs, which must still run when the fault comes.
TEST(Chaos, ARankThatEndsByItselfIsAFailure) {
  const ProgramEnd end = run_against(
      "touch $LOCKSTEP_SURVIVAL_FILE; echo same > $o/model.safetensors; [ $RANK$LOCKSTEP_MEMBER = 1 ] || exec sleep 2; "
      "sleep 1; case $o in */disturbed) exit 7;; esac",
      {"--nproc-per-node", "4", "--faults", "1", "--interval", "0.1", "--kinds", "pause", "--no-spares"});
  EXPECT_EQ(end.code, 1) << end.out << end.err;
  EXPECT_NE(end.out.find("ranks that ended although no fault had hit them: 1"), std::string::npos)
      << end.out << end.err;
  const std::filesystem::path logs = value_of("logs", end.out);
  EXPECT_TRUE(std::filesystem::exists(logs / "training-1/launcher")) << end.out;
  EXPECT_TRUE(std::filesystem::exists(logs / "training-1/faults")) << end.out;
  EXPECT_GT(std::filesystem::remove_all(logs), 0U);
}

TEST(Chaos, ATrainingThatEndsBeforeAFaultIsTooShort) {
  const ProgramEnd end =
      run_against("echo same > $o/model.safetensors", {"--faults", "1", "--nproc-per-node", "2", "--no-spares"});
  EXPECT_EQ(end.code, 1) << end.out;
  EXPECT_NE(end.err.find("3 trainings ended before a fault"), std::string::npos) << end.err;
}

struct Refused {
  const char* name;
  std::vector<std::string> words;
  const char* says;
};

class ChaosRefuses : public ::testing::TestWithParam<Refused> {};

TEST_P(ChaosRefuses, WithAFix) {
  const ProgramEnd end = run_program(chaos(GetParam().words));
  EXPECT_EQ(end.code, 2) << end.err;
  EXPECT_NE(end.err.find(GetParam().says), std::string::npos) << end.err;
}

INSTANTIATE_TEST_SUITE_P(
    Table, ChaosRefuses,
    ::testing::Values(
        Refused{"an_unknown_kind", {"--kinds", "kill,kil"}, "'kil' is not a kind of fault"},
        Refused{"spares_alone", {"--kinds", "spare"}, "use kill,spare"},
        Refused{"one_rank", {"--nproc-per-node", "1"}, "a training with one rank has no other rank that could survive"},
        Refused{"a_host_without_hosts", {"--kinds", "kill,host"}, "add --hosts 2 or more"},
        Refused{"one_host", {"--hosts", "1"}, "Value 1 not in range 2 to 16"},
        Refused{"no_faults", {"--faults", "0"}, "Value 0 not in range"},
        Refused{"another_program", {"--", "ls", "-l"}, "the program is not lockstep train"},
        Refused{"an_output_folder", {"--", "lockstep", "train", "--output_dir=here"}, "the training has --output-dir"},
        Refused{"a_training_that_does_not_survive",
                {"--", "lockstep", "train", "--survive-lost-ranks", "false"},
                "the training has --survive-lost-ranks"},
        Refused{"a_misspelt_flag", {"--fault", "3"}, "did you mean '--faults'?"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lockstep
