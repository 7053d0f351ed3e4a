// Tests `lockstep train` whose ranks read different files, and whose file changes while it trains.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
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

constexpr int kRowsOfFile = 120;

// A header and reviews with two classes; row `other` differs from what it is otherwise.
std::string rows_with(int other) {
  std::ostringstream rows;
  rows << "text,label\n";
  for (int row = 0; row < kRowsOfFile; ++row) {
    rows << "review " << row << (row == other ? " was cold" : " was good") << ',' << (row % 3 == 0 ? "no" : "yes")
         << '\n';
  }
  return rows.str();
}

std::vector<std::string> survivors(const std::string& file, const std::string& output) {
  return joined_words(
      {std::string(LOCKSTEP_BIN_DIR) + "/lockstep", "run", "--nproc-per-node", "2", "--max-restarts", "3"},
      text_classification(
          file, output,
          {"--virtual-shards", "4", "--per-device-train-batch-size", "2", "--max-length", "16", "--max-steps", "150",
           "--logging-steps", "1", "--save-strategy", "no", "--survive-lost-ranks", "true"}));
}

Deadline in_four_minutes() { return Deadline::after(std::chrono::minutes(4)); }

// Waits for the first steps. Then another file takes the place of the training's.
void change_file(RunningProgram& program, const std::string& file, int other) {
  ASSERT_TRUE(program.wait_for("{'loss'", in_four_minutes())) << program.out() << program.err();
  write_file_atomically(file, rows_with(other));
}

void kill(const RunningProgram& program, int rank, int signal) {
  const auto pid = process_of_rank(program.pid(), rank);
  ASSERT_TRUE(pid) << "rank " << rank << " has ended already";
  ::kill(*pid, signal);
}

// One training is disturbed, and one is not: each takes some seconds.
TEST(ChangedData, AProcessThatReadsAnotherFileTakesNoLostRanksPlace) {
  const TemporaryFolder folder;
  const std::string file = folder / "rows.csv";
  std::vector<std::string> weights;
  for (const bool is_changed : {false, true}) {
    write_file_atomically(file, rows_with(-1));
    const std::string output = folder / (is_changed ? "disturbed" : "calm");
    RunningProgram program(survivors(file, output));
    if (is_changed) {
      change_file(program, file, 77);
      kill(program, 1, SIGKILL);
    }
    const ProgramEnd end = program.wait(in_four_minutes());
    ASSERT_EQ(end.code, 0) << end.out << end.err;
    weights.push_back(read_file(output + "/model.safetensors"));
    if (!is_changed) continue;
    for (const char* part : {"cannot take a lost rank's place", "this process has other samples than the others",
                             "is among the samples 76 to 77", "rows.csv", "which was to join the running ranks"}) {
      EXPECT_NE(end.err.find(part), std::string::npos) << part << " in " << end.err;
    }
    EXPECT_EQ(end.err.find("has joined"), std::string::npos) << end.err;
  }
  EXPECT_TRUE(weights[0] == weights[1]);
}

TEST(ChangedData, TheLaunchersMemoryIsNotContinuedWithAnotherFile) {
  const TemporaryFolder folder;
  const std::string file = folder / "rows.csv";
  write_file_atomically(file, rows_with(-1));
  RunningProgram program(survivors(file, folder / "out"));
  change_file(program, file, 30);
  for (const int signal : {SIGSTOP, SIGKILL}) {  // those that were stopped first cannot survive each other
    for (const int rank : {0, 1}) kill(program, rank, signal);
  }
  const ProgramEnd end = program.wait(in_four_minutes());
  EXPECT_NE(end.code, 0) << end.out;
  for (const char* part : {"the file has changed since the ranks that were lost read it",
                           "this start has other samples than the job's memory", "samples 30 to 31", "rows.csv"}) {
    EXPECT_NE(end.err.find(part), std::string::npos) << part << " in " << end.err;
  }
  EXPECT_EQ(end.err.find("restart 2 of 3"), std::string::npos) << "a further start reads the same file: " << end.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "out/model.safetensors"));
}

}  // namespace
}  // namespace lockstep
