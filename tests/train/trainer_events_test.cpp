// The order in which callbacks are called.
#include <gtest/gtest.h>

#include "lockstep/train/trainer.h"
#include "tests/train/token_training.h"

namespace lockstep {
namespace {

// Notes the events that it sees.
class RecordingCallback : public TrainerCallback {
 public:
  std::vector<std::string> events;
  void on_init_end(TrainerEvent&) override { events.emplace_back("init_end"); }
  void on_train_begin(TrainerEvent&) override { events.emplace_back("train_begin"); }
  void on_train_end(TrainerEvent&) override { events.emplace_back("train_end"); }
  void on_epoch_begin(TrainerEvent&) override { events.emplace_back("epoch_begin"); }
  void on_epoch_end(TrainerEvent&) override { events.emplace_back("epoch_end"); }
  void on_step_begin(TrainerEvent&) override { events.emplace_back("step_begin"); }
  void on_substep_end(TrainerEvent&) override { events.emplace_back("substep_end"); }
  void on_pre_optimizer_step(TrainerEvent&) override { events.emplace_back("pre_optimizer_step"); }
  void on_optimizer_step(TrainerEvent&) override { events.emplace_back("optimizer_step"); }
  void on_step_end(TrainerEvent&) override { events.emplace_back("step_end"); }
  void on_evaluate(TrainerEvent&) override { events.emplace_back("evaluate"); }
  void on_predict(TrainerEvent&) override { events.emplace_back("predict"); }
  void on_save(TrainerEvent&) override { events.emplace_back("save"); }
  void on_log(TrainerEvent&) override { events.emplace_back("log"); }
  void on_prediction_step(TrainerEvent&) override { events.emplace_back("prediction_step"); }
};

TEST(Trainer, EventsComeInHuggingFacesOrder) {
  TokenTraining training(5);
  auto recorder = std::make_shared<RecordingCallback>();
  training.options.callbacks = {recorder};
  training.options.args.gradient_accumulation_steps = 2;  // 3 micro-batches: 2 and 1
  training.options.args.logging_steps = 1;
  training.options.args.eval_strategy = "epoch";
  training.options.args.save_strategy = "epoch";
  Trainer(training.options).train();
  const std::vector<std::string> want{"init_end",
                                      "train_begin",
                                      "epoch_begin",
                                      "step_begin",
                                      "substep_end",
                                      "pre_optimizer_step",
                                      "optimizer_step",
                                      "step_end",
                                      "log",
                                      "step_begin",
                                      "pre_optimizer_step",
                                      "optimizer_step",
                                      "step_end",
                                      "log",
                                      "epoch_end",
                                      "prediction_step",
                                      "log",
                                      "evaluate",
                                      "save",
                                      "log",
                                      "train_end"};
  EXPECT_EQ(recorder->events, want);
}

}  // namespace
}  // namespace lockstep
