// Tests the messages of a training that resumes from a checkpoint with other arguments, or from a missing one.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "lockstep/base/error.h"
#include "lockstep/comm/spawn.h"
#include "lockstep/train/arguments/argument_changes.h"
#include "lockstep/train/trainer.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/token_training.h"

namespace lockstep {
namespace {

using ChangeOptions = std::function<void(TrainerOptions&)>;

// 12 samples in batches of 2: 6 updates per epoch, and a checkpoint after every third.
void run_with_checkpoints(TokenTraining& training, const std::string& folder, const ChangeOptions& change = {}) {
  training.options.args.output_dir = folder;
  training.options.args.save_strategy = "steps";
  training.options.args.save_steps = 3;
  if (change) change(training.options);
}

std::string refusal_in(const std::function<void()>& body) {
  try {
    body();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(ResumeArguments, EachChangeIsOneLineWithBothValuesAndWhatHappens) {
  const TemporaryFolder folder;
  TokenTraining first;
  run_with_checkpoints(first, folder.path(),
                       [](TrainerOptions& options) { options.data_arguments["max_length"] = 64; });
  Trainer(first.options).train();
  EXPECT_FALSE(first.has_printed("in the checkpoint"));

  TokenTraining second;
  run_with_checkpoints(second, folder.path(), [&](TrainerOptions& options) {
    options.args.resume_from_checkpoint = folder / "checkpoint-3";
    options.args.learning_rate = 0.5;
    options.args.seed = 7;
    options.args.per_device_train_batch_size = 3;
    options.args.disable_tqdm = true;  // changes no result
    options.data_arguments["max_length"] = 32;
  });
  Trainer trainer(second.options);
  trainer.train();
  for (const char* line :
       {"warning: learning_rate is 0.5, but 0.05 in the checkpoint: the checkpoint's stays in effect",
        "warning: seed is 7, but 42 in the checkpoint: the checkpoint's generators and order of samples continue",
        "warning: per_device_train_batch_size is 3, but 2 in the checkpoint: from here on, updates take different "
        "samples",
        "warning: max_length is 32, but 64 in the checkpoint: the checkpoint was trained on differently prepared "
        "data"}) {
    EXPECT_TRUE(second.has_printed(line)) << line;
  }
  EXPECT_FALSE(second.has_printed("disable_tqdm is"));
  // The rates confirm it: they start from 0.05 and fall to 0 over the whole run.
  for (const LogEntry& entry : trainer.state().log_history) {
    const auto rate = entry.values.find("learning_rate");
    if (rate != entry.values.end()) {
      EXPECT_LE(rate->second, 0.05);
    }
  }
}

TEST(ResumeArguments, WhatIsEqualIsNotSaid) {
  const nlohmann::json args = to_json(TrainingArguments());
  EXPECT_TRUE(argument_changes(args, args).empty());
  nlohmann::json older = args;
  older.erase("learning_rate");  // from a version that did not have it
  EXPECT_TRUE(argument_changes(older, args).empty());
}

TEST(ResumeArguments, ACheckpointBeyondTheEndIsNotTrainedOnNorWrittenOver) {
  const TemporaryFolder folder;
  TokenTraining first;
  run_with_checkpoints(first, folder.path());
  Trainer(first.options).train();
  ASSERT_TRUE(std::filesystem::exists(folder / "checkpoint-6"));

  TokenTraining second;
  run_with_checkpoints(second, folder.path(), [](TrainerOptions& options) {
    options.args.resume_from_checkpoint = "true";
    options.args.max_steps = 4;
  });
  Trainer trainer(second.options);
  const TrainOutput output = trainer.train();
  EXPECT_EQ(output.already_complete, folder / "checkpoint-6");
  EXPECT_EQ(output.global_step, 6);
  EXPECT_TRUE(second.has_printed("Training is already complete: " + (folder / "checkpoint-6") +
                                 " is of step 6, and this run ends with step 4."));
  EXPECT_TRUE(flat_weights(*second.net).equal(flat_weights(*first.net))) << "the checkpoint's";
  EXPECT_FALSE(std::filesystem::exists(folder / "checkpoint-4"));
}

TEST(ResumeArguments, WhatTheCheckpointsStateDoesNotFitIsRefusedWithTheWayOut) {
  const TemporaryFolder folder;
  TokenTraining first;
  run_with_checkpoints(first, folder.path());
  Trainer(first.options).train();
  const auto refusal = [&](const ChangeOptions& change) {
    TokenTraining again;
    run_with_checkpoints(again, folder.path(), change);
    again.options.args.resume_from_checkpoint = folder / "checkpoint-3";
    return refusal_in([&] { Trainer(again.options).train(); });
  };
  const std::string sgd = refusal([](TrainerOptions& options) { options.args.optim = "sgd"; });
  EXPECT_TRUE(holds(sgd, "optim is sgd, but adamw_torch in the checkpoint")) << sgd;
  EXPECT_TRUE(holds(sgd, "--model " + (folder / "checkpoint-3"))) << sgd;
  const std::string plateau = refusal([](TrainerOptions& options) {
    options.args.lr_scheduler_type = "reduce_lr_on_plateau";
    options.args.eval_strategy = "epoch";
  });
  EXPECT_TRUE(holds(plateau, "lr_scheduler_type is reduce_lr_on_plateau, but linear in the checkpoint")) << plateau;
  const std::string fewer =
      refusal([](TrainerOptions& options) { options.train_dataset = std::make_shared<TokenTaskDataset>(11); });
  EXPECT_TRUE(holds(fewer, "the training data has 11 samples, but 12 in the checkpoint")) << fewer;
}

TEST(ResumeArguments, AFolderThatIsNotThereIsSaidWithThoseThatAre) {
  const TemporaryFolder folder;
  TokenTraining first;
  run_with_checkpoints(first, folder.path());
  Trainer(first.options).train();
  const auto refusal = [&](const std::string& from, const std::shared_ptr<Communicator>& group = nullptr) {
    TokenTraining again;
    run_with_checkpoints(again, folder.path(), [&](TrainerOptions& options) {
      options.args.resume_from_checkpoint = from;
      options.process_group = group;
    });
    return refusal_in([&] { Trainer(again.options).train(); });
  };
  const std::string nowhere = refusal("nope");
  EXPECT_TRUE(holds(nowhere, "there is no folder \"nope\"")) << nowhere;
  EXPECT_TRUE(holds(nowhere, folder / "checkpoint-6" + ", " + (folder / "checkpoint-3"))) << nowhere;
  EXPECT_TRUE(holds(refusal(folder.path()), "is not a checkpoint, but holds some"));
  EXPECT_TRUE(holds(refusal(folder / "checkpoint-3/config.json"), "config.json"));
  const TemporaryFolder empty;
  TokenTraining none;
  run_with_checkpoints(none, empty.path(),
                       [](TrainerOptions& options) { options.args.resume_from_checkpoint = "nope"; });
  EXPECT_TRUE(
      holds(refusal_in([&] { Trainer(none.options).train(); }), "no checkpoints in " + empty.path() + " either"));
}

TEST(ResumeArguments, AMetricThatEvaluationsDoNotGiveIsRefusedBeforeTheFirst) {
  TokenTraining training;
  training.options.args.eval_strategy = "epoch";
  training.options.compute_metrics = [](const EvalPrediction&) { return Metrics{{"accuracy", 1}}; };
  training.options.metric_names = {"accuracy"};
  training.options.args.metric_for_best_model = "acuracy";
  const std::string text = refusal_in([&] { Trainer trainer(training.options); });
  EXPECT_TRUE(holds(text, "did you mean 'accuracy'?")) << text;
  EXPECT_TRUE(holds(text, "one of loss, accuracy")) << text;
  for (const char* good : {"accuracy", "eval_accuracy", "loss", "eval_loss", "eval_runtime"}) {
    training.options.args.metric_for_best_model = good;
    EXPECT_EQ(refusal_in([&] { Trainer trainer(training.options); }), "") << good;
  }
}

TEST(ResumeArguments, AnEngineThatIsNoneIsRefusedWithoutRanks) {
  TokenTraining training;
  training.options.args.ddp_backend = "glo";
  const std::string text = refusal_in([&] { Trainer trainer(training.options); });
  EXPECT_TRUE(holds(text, "there is no engine 'glo'; did you mean 'gloo'?")) << text;
}

}  // namespace
}  // namespace lockstep
