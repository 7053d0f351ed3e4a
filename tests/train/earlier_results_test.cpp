#include "lockstep/train/checks/earlier_results.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "lockstep/train/trainer.h"
#include "tests/train/token_training.h"

namespace lockstep {
namespace {

constexpr const char* kAlreadyHas = " already has ";

TEST(EarlierResults, AreNamedToATrainingThatStartsFromTheBeginning) {
  TokenTraining training(12);
  TrainingArguments& args = training.options.args;
  args.max_steps = 2;
  args.save_strategy = "steps";
  args.save_steps = 1;
  Trainer(training.options).train();
  EXPECT_FALSE(training.has_printed(kAlreadyHas));

  args.resume_from_checkpoint = "true";
  args.max_steps = 3;
  Trainer(training.options).train();
  EXPECT_FALSE(training.has_printed(kAlreadyHas));

  args.resume_from_checkpoint.reset();
  Trainer(training.options).train();
  EXPECT_TRUE(
      training.has_printed("warning: " + args.output_dir + kAlreadyHas + "checkpoint-3 of an earlier training"));
  EXPECT_TRUE(training.has_printed("--resume-from-checkpoint true continues"));
}

TEST(EarlierResults, CanBeAModelWithoutACheckpoint) {
  const TemporaryFolder folder;
  EXPECT_EQ(earlier_results_line(folder.path()), "");
  EXPECT_EQ(earlier_results_line(folder / "is not there"), "");
  std::ofstream(folder / "notes.txt") << "of the user";
  EXPECT_EQ(earlier_results_line(folder.path()), "");
  std::ofstream(folder / "model.safetensors") << "x";
  EXPECT_NE(earlier_results_line(folder.path()).find("already has model.safetensors"), std::string::npos);
  std::filesystem::create_directories(folder / "checkpoint-7");  // as Hugging Face's Trainer names one
  EXPECT_NE(earlier_results_line(folder.path()).find("already has checkpoint-7 of"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
