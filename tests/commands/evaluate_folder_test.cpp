// Tests that `lockstep evaluate --save` writes into no folder in which a training runs: it is refused before it reads
// the model. The other training is a real process, which is killed.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <memory>
#include <string>

#include "lockstep/train/folder/training_folder.h"
#include "tests/commands/run_command.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/folder/standing_process.h"

namespace lockstep {
namespace {

TEST(EvaluateFolder, WritesIntoNoFolderInWhichATrainingRuns) {
  const TemporaryFolder place;
  TrainingArguments args;
  args.output_dir = place / "out";
  StandingProcess training([held = std::make_shared<TrainingFolder>(args)](char) -> std::string {
    ::unsetenv("LOCKSTEP_JOB");  // another launcher's
    held->take(OutputFolderLock::Awaited::SameJob);
    return "taken";
  });
  ASSERT_EQ(training.ask('t'), "taken");
  CommandWords words{
      "evaluate",          "--task",           "tabular-classification", "--model",      place / "not there",
      "--validation-file", place / "rows.csv", "--output-dir",           args.output_dir};
  const std::string refusal =
      "another training writes into this folder: process " + std::to_string(training.pid()) + " on host";
  EXPECT_FALSE(says(run_command(words).err, refusal)) << "it writes nothing there";
  words.emplace_back("--save");
  const ProgramEnd refused = run_command(words);
  EXPECT_EQ(refused.code, 1);
  EXPECT_TRUE(says(refused.err, refusal)) << refused.err;
  words[8] = args.output_dir + "/checkpoint-4";
  EXPECT_TRUE(says(run_command(words).err, "another training writes into ")) << "not inside of it either";
  training.kill();
  words[8] = args.output_dir;
  EXPECT_FALSE(says(run_command(words).err, "another training")) << "it has ended";
}

}  // namespace
}  // namespace lockstep
