// Tests that two trainings never write into one folder: real processes.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "lockstep/base/files/atomic_file.h"
#include "tests/e2e/train/bad_input.h"
#include "tests/support/running_program.h"
#include "tests/support/table_training.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

BadInputWords bad_input_words(BadInputWords words) {
  words.insert(words.begin(), kBadInputBin);
  return words;
}

TEST(TrainBadInput, ASecondTrainingInTheSameFolderIsRefusedWithTheFirstOnesProcess) {
  const TemporaryFolder folder;
  const std::string file = write_lines(folder / "table.csv", table_text(300));
  const std::string out = folder / "out";
  RunningProgram first(bad_input_words(table_training(
      file, out,
      {"--max-steps", "100000000", "--logging-steps", "50", "--save-steps", "200", "--save-total-limit", "2"})));
  ASSERT_TRUE(first.wait_for("'loss'", Deadline::after(std::chrono::seconds(120)))) << first.err();
  const ProgramEnd second = run_bad(bad_input_words(table_training(file, out, {"--max-steps", "2"})));
  EXPECT_EQ(second.code, 1) << second.out;
  EXPECT_TRUE(tells(second.err, "another training writes into this folder: process " + std::to_string(first.pid())))
      << second.err;
  // The other ranks of a job report it, too.
  const ProgramEnd ranks = [&] {
    BadInputWords words = bad_input_words(table_training(file, out, {"--max-steps", "2"}));
    const BadInputWords launcher{kBadInputBin, "run", "--nproc-per-node", "2"};
    words.insert(words.begin(), launcher.begin(), launcher.end());
    return run_bad(words);
  }();
  EXPECT_EQ(ranks.code, 1);
  EXPECT_TRUE(tells(ranks.err, "another training writes into this folder")) << ranks.err;
  // The folder is released even if its holder is killed.
  first.send(SIGKILL);
  first.wait(Deadline::after(std::chrono::seconds(60)));
  const ProgramEnd third =
      run_bad(bad_input_words(table_training(file, out, {"--max-steps", "2", "--save-strategy", "no"})));
  EXPECT_EQ(third.code, 0) << third.err;
  EXPECT_FALSE(std::filesystem::exists(out + "/.lockstep.lock"));
}

}  // namespace
}  // namespace lockstep
