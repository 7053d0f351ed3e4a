#include "lockstep/train/checks/earlier_results.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/base/files/atomic_file.h"
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
  EXPECT_TRUE(training.has_printed("warning: " + args.output_dir + kAlreadyHas +
                                   "checkpoint-3, checkpoint-2, checkpoint-1 of an earlier"));
  EXPECT_TRUE(training.has_printed("--resume-from-checkpoint true continues"));
  EXPECT_FALSE(training.has_printed("--save-total-limit"));

  args.save_total_limit = 1;
  Trainer(training.options).train();
  EXPECT_TRUE(training.has_printed("checkpoint-3, checkpoint-2, checkpoint-1 of an earlier training"));
  EXPECT_TRUE(
      training.has_printed("--save-total-limit 1 counts those of both trainings, and removes the earlier ones first"));
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

nlohmann::json combined_results(const TokenTraining& training) {
  return nlohmann::json::parse(read_file(training.folder / "all_results.json"));
}

// Metrics of a model that the folder no longer has would stand beside those of the new one.
TEST(EarlierResults, AreNotMixedWithThoseOfATrainingThatStartsOver) {
  TokenTraining training(12);
  training.options.args.max_steps = 1;
  training.options.args.save_strategy = "steps";
  training.options.args.save_steps = 1;
  const auto train_and_save = [&](int steps, const std::vector<std::string>& splits) {
    training.options.args.max_steps = steps;
    Trainer trainer(training.options);
    trainer.train();
    trainer.save_model();
    for (const std::string& split : splits) trainer.save_metrics(split, {{split + "_loss", double(steps)}});
  };
  train_and_save(1, {"train", "eval"});
  EXPECT_EQ(combined_results(training), (nlohmann::json{{"train_loss", 1}, {"eval_loss", 1}}));
  // What continues it, or evaluates its model, adds to them.
  training.options.args.resume_from_checkpoint = "true";
  train_and_save(2, {"train"});
  Trainer(training.options).save_metrics("test", {{"test_loss", 3}});
  EXPECT_EQ(combined_results(training), (nlohmann::json{{"train_loss", 2}, {"eval_loss", 1}, {"test_loss", 3}}));
  training.options.args.resume_from_checkpoint.reset();
  train_and_save(3, {"train"});
  EXPECT_EQ(combined_results(training), nlohmann::json({{"train_loss", 3}}));
  // They were of models that the folder no longer has.
  for (const char* name : {"eval", "test"}) {
    EXPECT_FALSE(std::filesystem::exists(training.folder / name + std::string("_results.json"))) << name;
  }
  EXPECT_TRUE(training.has_printed("eval_results.json, test_results.json, of the model that was replaced"));
}

// Until its model is replaced, and with a training that continues.
TEST(EarlierResults, StayBesideTheirModel) {
  TokenTraining training(12);
  training.options.args.max_steps = 1;
  training.options.args.save_strategy = "steps";
  training.options.args.save_steps = 1;
  const std::string of_evaluation = training.folder / "eval_results.json";
  const auto train = [&](bool saves) {
    Trainer trainer(training.options);
    trainer.train();
    if (saves) trainer.save_model();
  };
  write_file_atomically(of_evaluation, "{}");
  train(false);
  EXPECT_TRUE(std::filesystem::exists(of_evaluation));
  training.options.args.max_steps = 2;
  training.options.args.resume_from_checkpoint = "true";
  train(true);
  EXPECT_TRUE(std::filesystem::exists(of_evaluation));
  Trainer trainer(training.options);
  trainer.save_metrics("eval", {{"eval_loss", 1}});
  trainer.save_model();
  EXPECT_TRUE(std::filesystem::exists(of_evaluation));
  training.options.args.resume_from_checkpoint.reset();
  train(true);
  EXPECT_FALSE(std::filesystem::exists(of_evaluation));
}

TEST(EarlierResults, OfTheSameTrainerBeforeItsTrainingStay) {
  TokenTraining training(12);
  training.options.args.max_steps = 1;
  Trainer trainer(training.options);
  trainer.save_metrics("untrained", {{"untrained_loss", 2}});
  trainer.train();
  trainer.save_metrics("eval", {{"eval_loss", 1}});
  EXPECT_EQ(combined_results(training), (nlohmann::json{{"untrained_loss", 2}, {"eval_loss", 1}}));
  trainer.train();
  EXPECT_FALSE(std::filesystem::exists(training.folder / "all_results.json"));
}

}  // namespace
}  // namespace lockstep
