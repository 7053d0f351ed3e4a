// Tests `lockstep train`, `evaluate` and `predict`, and the examples of Trainer: real processes on the shipped data.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/signals.h"
#include "lockstep/launch/process/process_table.h"
#include "tests/e2e/train/eval_results.h"
#include "tests/e2e/train/review_classification.h"
#include "tests/support/process_of_rank.h"
#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_size.h"

namespace lockstep {
namespace {

using TrainWords = std::vector<std::string>;

const std::string kTrainBin = LOCKSTEP_BIN_DIR;
const std::string kTrainData = std::string(LOCKSTEP_SOURCE_DIR) + "/data/";

ProgramEnd run_train(int ranks, TrainWords words) {
  if (ranks > 1) {
    const TrainWords launcher{kTrainBin + "/lockstep", "run", "--nproc-per-node", std::to_string(ranks)};
    words.insert(words.begin(), launcher.begin(), launcher.end());
  }
  return run_program(words, {}, std::chrono::seconds(300));
}

TrainWords review_training(const std::string& output, const TrainWords& more) {
  TrainWords words =
      review_classification(output, {"--validation-file", kTrainData + "reviews-test.csv", "--max-length", "64",
                                     "--max-eval-samples", "200", "--learning-rate", "5e-4"});
  words.insert(words.end(), more.begin(), more.end());
  if (std::find(more.begin(), more.end(), "--max-train-samples") == more.end()) {
    words.insert(words.end(), {"--max-train-samples", "2000"});
  }
  return words;
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// What it learns in four epochs: in the suite it makes twenty updates, and knows nothing yet.
struct Learned {
  std::string epochs, samples;
  double f1, accuracy;
};

void expect_fine_tuned(const Learned& learned) {
  const TemporaryFolder folder;
  const std::string out = folder / "out";
  const ProgramEnd end = run_train(
      2, review_training(out, {"--num-train-epochs", learned.epochs, "--max-train-samples", learned.samples,
                               "--evaluation_strategy", "epoch", "--save-strategy", "epoch", "--load-best-model-at-end",
                               "--metric-for-best-model", "f1", "--save-total-limit", "2", "--logging-steps", "20"}));
  ASSERT_EQ(end.code, 0) << end.out << end.err;
  EXPECT_TRUE(says(end.out, "DistributedDataParallel: 2 ranks")) << end.out;
  EXPECT_TRUE(says(end.out, "8 per device x 2 ranks = 16 samples")) << end.out;
  EXPECT_TRUE(says(end.out, "{'loss': ")) << end.out;
  EXPECT_TRUE(says(end.out, "'eval_f1': ")) << end.out;
  EXPECT_TRUE(says(end.out, "Loading best model from ")) << end.out;
  const std::string macro_f1 = "  eval_f1                 =";
  ASSERT_TRUE(says(end.out, macro_f1)) << end.out;
  EXPECT_GE(std::stod(end.out.substr(end.out.find(macro_f1) + macro_f1.size())), learned.f1)
      << "random weights learn with the defaults; the majority guess reaches 0.19\n"
      << end.out;
  const double accuracy = eval_result(out, "eval_accuracy");
  EXPECT_GT(accuracy, learned.accuracy) << "the majority guess reaches 0.41\n" << end.out;
  for (const char* file : {"model.safetensors", "config.json", "tokenizer.json", "trainer_state.json",
                           "all_results.json", "metrics.jsonl"}) {
    EXPECT_TRUE(std::filesystem::exists(out + "/" + file)) << file;
  }

  // One process gets the same numbers from the saved folder as two ranks.
  const ProgramEnd evaluated = run_train(
      1, {kTrainBin + "/lockstep", "evaluate", "--task", "text-classification", "--model", out, "--validation-file",
          kTrainData + "reviews-test.csv", "--label-column", "division", "--max-length", "64", "--max-eval-samples",
          "200", "--per-device-eval-batch-size", "7", "--output-dir", folder / "evaluated", "--save"});
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_DOUBLE_EQ(eval_result(folder / "evaluated", "eval_accuracy"), accuracy);
  EXPECT_NEAR(eval_result(folder / "evaluated", "eval_loss"), eval_result(out, "eval_loss"), 1e-5);

  const ProgramEnd predicted =
      run_program({"sh", "-c",
                   "echo 'The fish came crisp and hot. The bill was smaller than we had feared.' | " + kTrainBin +
                       "/lockstep predict --model " + out + " --json"});
  ASSERT_EQ(predicted.code, 0) << predicted.err;
  const auto answer = nlohmann::json::parse(predicted.out);
  EXPECT_EQ(answer.at("scores").size(), 3U);
  if (learned.accuracy > 0) {
    EXPECT_EQ(answer.at("label"), "positive") << predicted.out;
  }
}

// Seconds: one training by processes, and two commands with its model.
TEST(TrainCommand, FineTunesOnTwoRanksSavesEvaluatesAndPredicts) { expect_fine_tuned({"2", "160", 0, 0}); }
TEST(TrainCommandLong, FineTunesOnTwoRanksSavesEvaluatesAndPredicts) { expect_fine_tuned({"4", "2000", 0.45, 0.6}); }

struct StopBySignal {
  const char* name;
  int signal;
  int ranks;
  friend std::ostream& operator<<(std::ostream& out, const StopBySignal& c) { return out << c.name; }
};
class TrainCommandStop : public ::testing::TestWithParam<StopBySignal> {};

// Seconds: a training by processes is stopped and started again.
TEST_P(TrainCommandStop, SavesAndTheNextStartGoesOn) {
  const TemporaryFolder folder;
  const std::string out = folder / "out";
  const TrainWords flags{"--num-train-epochs", "50", "--save-strategy",          "no",
                         "--logging-steps",    "1",  "--resume-from-checkpoint", "true"};
  TrainWords words = review_training(out, flags);
  if (GetParam().ranks > 1) words.insert(words.begin(), {kTrainBin + "/lockstep", "run", "--nproc-per-node", "2"});
  RunningProgram program(words);
  ASSERT_TRUE(program.wait_for("'epoch': 0.0", Deadline::after(std::chrono::seconds(120)))) << program.err();
  program.send(GetParam().signal);
  const ProgramEnd end = program.wait(Deadline::after(std::chrono::seconds(120)));
  EXPECT_EQ(end.code, 128 + GetParam().signal) << end.out << end.err;
  EXPECT_TRUE(says(end.out, "Stopped by signal " + std::to_string(GetParam().signal))) << end.out;
  EXPECT_TRUE(says(end.out, "--resume-from-checkpoint true")) << end.out;
  const ProgramEnd again = run_train(
      GetParam().ranks,
      review_training(out, {"--max-steps", "20", "--save-strategy", "no", "--resume-from-checkpoint", "true"}));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(says(again.out, "Continuing from ")) << again.out;
}

INSTANTIATE_TEST_SUITE_P(Signals, TrainCommandStop,
                         ::testing::Values(StopBySignal{"terminate", SIGTERM, 1},
                                           StopBySignal{"interrupt_two_ranks", SIGINT, 2}),
                         [](const auto& test) { return test.param.name; });
INSTANTIATE_TEST_SUITE_P(SignalsLong, TrainCommandStop, ::testing::Values(StopBySignal{"interrupt", SIGINT, 1}),
                         [](const auto& test) { return test.param.name; });

// As a batch system or a person may do it, who sees processes and not a job.
TEST(TrainCommand, StopsInOrderWhenOneRankIsAskedToEnd) {
  const TemporaryFolder folder;
  RunningProgram program(on_two_ranks(
      review_training(folder / "out", {"--num-train-epochs", "50", "--save-strategy", "no", "--logging-steps", "1"})));
  ASSERT_TRUE(program.wait_for("'epoch': 0.0", Deadline::after(std::chrono::seconds(120)))) << program.err();
  const auto rank = process_of_rank(program.pid(), 1);
  ASSERT_TRUE(rank) << program.err();
  ::kill(*rank, SIGTERM);
  const ProgramEnd end = program.wait(Deadline::after(std::chrono::seconds(120)));
  EXPECT_EQ(end.code, 128 + SIGTERM) << end.out << end.err;
  EXPECT_TRUE(says(end.out, "Stopped by signal 15")) << end.out;
  EXPECT_TRUE(says(end.err, "was asked to end by a signal, and stopped in order: exit code 143")) << end.err;
  EXPECT_TRUE(says(end.err, "rank 1 (local rank 1, pid " + std::to_string(*rank))) << end.err;
  EXPECT_TRUE(says(end.err, "rank 0: stopped in order, exit code 143")) << end.err;
  EXPECT_TRUE(says(end.err, "the training was asked to end by SIGTERM: it stopped after update")) << end.err;
  for (const char* word : {"error", "failed first", "gdb"}) EXPECT_FALSE(says(end.err, word)) << end.err;
}

// As a batch system warns a job step: launcher and ranks at once, or the launcher alone. SIGUSR2 means the same.
struct WarnedTraining {
  const char* name;
  int signal;
  bool all_at_once;
  friend std::ostream& operator<<(std::ostream& out, const WarnedTraining& c) { return out << c.name; }
};
class TrainCommandWarned : public ::testing::TestWithParam<WarnedTraining> {};

TEST_P(TrainCommandWarned, SavesAndEndsWithTheCodeOnWhichScriptsQueueAgain) {
  const TemporaryFolder folder;
  RunningProgram program(joined_words(
      {kTrainBin + "/lockstep", "run", "--nproc-per-node", "2", "--max-restarts", "2"},
      review_training(folder / "out", {"--num-train-epochs", "50", "--save-strategy", "no", "--logging-steps", "1"})));
  ASSERT_TRUE(program.wait_for("'epoch': 0.0", Deadline::after(std::chrono::seconds(120)))) << program.err();
  if (GetParam().all_at_once) {
    for (const pid_t pid : descendants(program.pid(), {})) ::kill(pid, GetParam().signal);
  }
  program.send(GetParam().signal);
  const ProgramEnd end = program.wait(Deadline::after(std::chrono::seconds(120)));
  EXPECT_EQ(end.code, 143) << end.out << end.err;
  const std::string name = signal_name(GetParam().signal);
  const std::string number = std::to_string(GetParam().signal);
  EXPECT_TRUE(says(end.out, "Stopped by signal " + number + " (" + name + ") after step ")) << end.out;
  EXPECT_TRUE(says(end.err, name + " arrived, a batch system's warning")) << end.err;
  for (const char* word : {"error", "failed first"}) EXPECT_FALSE(says(end.err, word)) << end.err;
  ASSERT_TRUE(std::filesystem::exists(folder / "out")) << end.out;
  bool has_checkpoint = false;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "out")) {
    has_checkpoint = has_checkpoint || says(entry.path().filename().string(), "checkpoint-");
  }
  EXPECT_TRUE(has_checkpoint);
}

INSTANTIATE_TEST_SUITE_P(Signals, TrainCommandWarned,
                         ::testing::Values(WarnedTraining{"launcher", SIGUSR2, false},
                                           WarnedTraining{"all_at_once", SIGUSR1, true}),
                         [](const auto& test) { return test.param.name; });

// The warning is there before the program is: it is kept until the training has begun.
TEST(TrainCommand, AWarningBeforeTheFirstStepIsKeptForIt) {
  const TemporaryFolder folder;
  RunningProgram program(
      joined_words({kTrainBin + "/lockstep", "run", "--nproc-per-node", "1"},
                   review_training(folder / "out", {"--num-train-epochs", "50", "--save-strategy", "no"})));
  const Deadline deadline = Deadline::after(std::chrono::seconds(60));
  std::optional<pid_t> rank;
  while (!(rank = process_of_rank(program.pid(), 0)) && !deadline.passed()) ::usleep(1000);
  ASSERT_TRUE(rank);
  const auto program_of_rank = [&] {
    std::error_code ignored;
    return std::filesystem::read_symlink("/proc/" + std::to_string(*rank) + "/exe", ignored).string();
  };
  while (!says(program_of_rank(), "lockstep-torch") && !deadline.passed()) ::usleep(1000);
  ::kill(*rank, SIGUSR1);
  const ProgramEnd end = program.wait(Deadline::after(std::chrono::seconds(120)));
  EXPECT_EQ(end.code, 143) << end.out << end.err;
  EXPECT_TRUE(says(end.out, "Stopped by signal 10 (SIGUSR1) after step 1.")) << end.out;
}

// Seconds: a training by processes, and a command with its model.
TEST(TrainCommand, LearnsImagesOnTwoRanks) {
  const TemporaryFolder folder;
  const std::string digits = folder / "digits";
  ASSERT_EQ(
      run_program({kTrainBin + "/lockstep", "data", "digits", "--output", digits, "--train", "600", "--test", "100"})
          .code,
      0);
  const ProgramEnd images =
      run_train(2, {kTrainBin + "/lockstep", "train", "--task", "image-classification", "--model", "convnet",
                    "--train-file", digits, "--validation-file", digits, "--learning-rate", "1e-2",
                    "--num-train-epochs", "2", "--output-dir", folder / "images"});
  ASSERT_EQ(images.code, 0) << images.err;
  EXPECT_GT(eval_result(folder / "images", "eval_accuracy"), 0.5);
}

TEST(TrainerExamplesLong, ReviewsOnTwoRanks) {
  const TemporaryFolder folder;
  const ProgramEnd end = run_train(2, {kTrainBin + "/trainer_reviews", "--tokenizer", kTrainData + "reviews-vocab",
                                       "--train-file", kTrainData + "reviews.csv", "--validation-file",
                                       kTrainData + "reviews-test.csv", "--output-dir", folder / "out"});
  ASSERT_EQ(end.code, 0) << end.err;
  // 1000 samples in batches of 16: 63 steps an epoch, and three of four checkpoints stay.
  EXPECT_TRUE(says(end.out, "Total optimization steps = 252")) << end.out;
  std::vector<std::string> checkpoints;
  for (const char* step : {"63", "126", "189", "252"}) {
    if (std::filesystem::exists(folder / ("out/checkpoint-" + std::string(step)))) checkpoints.emplace_back(step);
  }
  EXPECT_EQ(checkpoints.size(), 3U);
  EXPECT_TRUE(says(end.out, "'eval_accuracy': ")) << end.out;
  EXPECT_TRUE(says(end.out, "Loading best model from ")) << end.out;
}

TEST(TrainerExamples, DataParallelByItselfComputesTheSameLoss) {
  const TemporaryFolder folder;
  const auto loss_of = [&](const TrainWords& more) {
    TrainWords words{"sh", "-c",
                     "cd " + std::string(LOCKSTEP_SOURCE_DIR) + " && exec " + kTrainBin +
                         "/trainer_dataparallel --output-dir " + (folder / "out")};
    for (const std::string& word : more) words.back() += " " + word;
    const ProgramEnd end = run_program(words, {}, std::chrono::seconds(300));
    EXPECT_EQ(end.code, 0) << end.err;
    const std::size_t at = end.out.find("train_loss");
    EXPECT_NE(at, std::string::npos) << end.out;
    EXPECT_TRUE(says(end.out, more.empty() ? "DataParallel: no launcher, 2 replicas" : "one process, one replica"))
        << end.out;
    return std::stod(end.out.substr(end.out.find('=', end.out.rfind("  train_loss")) + 1));
  };
  // Two replicas with 16 samples each equal one with 32.
  EXPECT_NEAR(loss_of({}), loss_of({"--replicas", "1", "--per-device-train-batch-size", "32"}), 2e-3);
}

}  // namespace
}  // namespace lockstep
