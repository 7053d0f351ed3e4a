// Tests that no training begins in the output folder of another one that has lost its first rank: real processes.
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/base/files/atomic_file.h"
#include "tests/e2e/train/review_classification.h"
#include "tests/support/process_of_rank.h"
#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

Deadline soon_enough() { return Deadline::after(std::chrono::minutes(4)); }

std::vector<std::string> training_into(const std::string& output, const std::vector<std::string>& more) {
  return review_classification(
      output, joined_words({"--per-device-train-batch-size", "2", "--max-length", "16", "--logging-steps", "1"}, more));
}

std::vector<std::string> launched_training(const std::string& ranks, const std::vector<std::string>& words) {
  return joined_words(
      {std::string(LOCKSTEP_BIN_DIR) + "/lockstep", "run", "--nproc-per-node", ranks, "--max-restarts", "2"}, words);
}

pid_t signal_rank(const RunningProgram& program, int rank, int signal) {
  const auto pid = process_of_rank(program.pid(), rank);
  EXPECT_TRUE(pid) << "rank " << rank << " has ended already";
  if (pid) ::kill(*pid, signal);
  return pid.value_or(-1);
}

// The steps at which trainings have begun to write.
std::vector<int> starts_in(const std::string& metrics) {
  std::vector<int> steps;
  std::istringstream lines(read_file(metrics));
  for (std::string line; std::getline(lines, line);) {
    const auto row = nlohmann::json::parse(line, nullptr, false);
    if (row.is_object() && row["kind"] == "start") steps.push_back(row["step"].get<int>());
  }
  return steps;
}

// The other ranks stand still, so that none of them follows the first one yet. The second training waits five seconds
// for them to end, as those that survive nothing would.
TEST(TwoTrainings, NoneBeginsInTheFolderOfOneThatHasLostItsFirstRank) {
  const TemporaryFolder folder;
  const std::string out = folder / "out";
  RunningProgram first(
      launched_training("3", training_into(out, {"--virtual-shards", "3", "--max-steps", "60", "--save-steps", "20",
                                                 "--save-total-limit", "1", "--survive-lost-ranks", "true"})));
  ASSERT_TRUE(first.wait_for("{'loss'", soon_enough())) << first.out() << first.err();
  const std::string one = std::to_string(signal_rank(first, 1, SIGSTOP));
  const std::string two = std::to_string(signal_rank(first, 2, SIGSTOP));
  signal_rank(first, 0, SIGKILL);
  const ProgramEnd second = run_program(
      launched_training(
          "1", training_into(out, {"--max-steps", "4", "--save-steps", "2", "--resume-from-checkpoint", "true"})),
      {}, std::chrono::minutes(4));
  EXPECT_EQ(second.code, 1) << second.out << second.err;
  const std::string refused = "another training writes into this folder: process ";
  EXPECT_TRUE(second.err.find(refused + one + " on host ") != std::string::npos ||
              second.err.find(refused + two + " on host ") != std::string::npos)
      << one << " or " << two << " in " << second.err;
  for (const char* part : {"its first rank, process ", "give another --output-dir"}) {
    EXPECT_NE(second.err.find(part), std::string::npos) << part << " in " << second.err;
  }
  EXPECT_NE(second.err.find("would refuse it again"), std::string::npos)
      << "it was started again, and may begin once the first one has ended: " << second.err;
  for (const int rank : {1, 2}) signal_rank(first, rank, SIGCONT);
  const ProgramEnd end = first.wait(soon_enough());
  EXPECT_EQ(end.code, 0) << end.out << end.err;
  EXPECT_EQ(end.err.find("another training"), std::string::npos) << end.err;
  const std::vector<int> starts = starts_in(out + "/metrics.jsonl");
  ASSERT_FALSE(starts.empty());
  for (std::size_t i = 1; i < starts.size(); ++i) EXPECT_GT(starts[i], 0) << "a training has begun between";
  // Nothing keeps the next one out.
  const ProgramEnd third =
      run_program(training_into(out, {"--max-steps", "1", "--save-strategy", "no"}), {}, std::chrono::minutes(4));
  EXPECT_EQ(third.code, 0) << third.err;
}

}  // namespace
}  // namespace lockstep
