// What a training's log has when metrics are NaN, when evaluations follow the training, and when its writer was lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>

#include "lockstep/base/files/atomic_file.h"
#include "lockstep/seeing/report_data.h"
#include "lockstep/train/folder/lost_logs.h"
#include "lockstep/train/metrics_log_callback.h"
#include "lockstep/train/tensorboard_callback.h"
#include "tests/train/token_training.h"

namespace lockstep {
namespace {

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

// A training with two evaluations whose accuracies are these, and a third one after it.
struct EvaluatedTraining : TokenTraining {
  explicit EvaluatedTraining(std::vector<double> accuracies) {
    options.args.num_train_epochs = 2;
    options.args.eval_strategy = options.args.save_strategy = "epoch";
    options.args.metric_for_best_model = "accuracy";
    options.args.load_best_model_at_end = true;
    options.compute_metrics = [values = std::move(accuracies), next = std::size_t{0}](const auto&) mutable {
      return Metrics{{"accuracy", values.at(next++)}};
    };
  }
};

TEST(LaterLogs, AMetricThatIsNanEachTimeIsWarnedAboutAndTheLastWeightsStay) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EvaluatedTraining training({-nan, nan, nan});
  Trainer trainer(training.options);
  trainer.train();
  const std::string said = [&] {
    std::string all;
    for (const std::string& line : training.printed) all += line + "\n";
    return all;
  }();
  EXPECT_EQ(occurrences(said, "eval_accuracy is NaN at step"), 1U) << said;
  EXPECT_NE(said.find("eval_accuracy was NaN each time. The model keeps the weights of the last step"),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("'eval_accuracy': nan"), std::string::npos) << said;
  trainer.save_model();
  EXPECT_TRUE(std::filesystem::exists(training.folder / "model.safetensors"));
}

TEST(LaterLogs, WithoutAnEvaluationTheLastWeightsStay) {
  EvaluatedTraining training({});
  training.options.args.eval_strategy = training.options.args.save_strategy = "steps";
  training.options.args.eval_steps = training.options.args.save_steps = 100;
  Trainer(training.options).train();
  EXPECT_TRUE(training.has_printed("no evaluation found a best model: there was none; make eval_steps smaller"));
}

TEST(LaterLogs, AnEvaluationAfterTheTrainingIsInTheLogTheReportAndTensorBoard) {
  EvaluatedTraining training({0.75, 0.5, 0.75});
  training.options.args.logging_dir = training.folder / "events";
  training.options.callbacks = {std::make_shared<MetricsLogCallback>(), std::make_shared<TensorBoardCallback>()};
  Trainer trainer(training.options);
  trainer.train();
  trainer.evaluate();
  trainer.save_state();
  const std::string log = read_file(training.folder / "metrics.jsonl");
  EXPECT_EQ(occurrences(log, "\"eval_accuracy\":"), 3U) << log;
  EXPECT_EQ(occurrences(log.substr(log.find("\"kind\":\"end\"")), "\"eval_accuracy\":0.75"), 1U) << log;

  const ReportData report = read_report_data(training.folder.path());
  EXPECT_EQ(report.logs.at("eval_accuracy").back().second, 0.75);
  const auto fact = [&](const std::string& name) {
    const auto found =
        std::find_if(report.facts.begin(), report.facts.end(), [&](const auto& each) { return each.first == name; });
    return found == report.facts.end() ? "" : found->second;
  };
  EXPECT_EQ(fact("best metric"), "0.75");
  EXPECT_EQ(fact("best checkpoint"), training.folder / "checkpoint-6");
  EXPECT_NE(fact("ended"), "");

  std::string events;
  for (const auto& file : std::filesystem::directory_iterator(training.folder / "events")) {
    events += read_file(file.path().string());
  }
  EXPECT_EQ(occurrences(events, "eval/accuracy"), 3U);
}

class LostLogs : public ::testing::Test {
 protected:
  std::optional<std::vector<std::int64_t>> missing(const std::string& rows) {
    write_file_atomically(folder_ / "metrics.jsonl", rows);
    const auto found = lost_logs(folder_ / "metrics.jsonl", history_);
    if (!found) return std::nullopt;
    std::vector<std::int64_t> steps;
    for (const LogEntry& entry : *found) steps.push_back(entry.step);
    return steps;
  }

  const TemporaryFolder folder_;
  std::vector<LogEntry> history_{{1, {{"loss", 3}, {"epoch", 0.5}}},
                                 {2, {{"loss", 2}, {"epoch", 1}}},
                                 {2, {{"eval_loss", 2.5}, {"epoch", 1}}},
                                 {3, {{"loss", 1}, {"epoch", 1.5}}}};
};

const char* const kStart = "{\"kind\":\"start\",\"step\":0,\"time\":1}\n";
const char* const kFirst = "{\"kind\":\"log\",\"step\":1,\"time\":1,\"loss\":3,\"epoch\":0.5}\n";
const char* const kSecond = "{\"kind\":\"log\",\"step\":2,\"time\":1,\"loss\":2,\"epoch\":1}\n";

TEST_F(LostLogs, AreThoseAfterTheLastOneInTheFile) {
  const std::vector<std::int64_t> all{1, 2, 2, 3}, none, last{2, 3};
  EXPECT_EQ(missing(kStart), all);
  EXPECT_EQ(missing(std::string(kStart) + kFirst + kSecond), last);
  EXPECT_EQ(missing(std::string(kStart) + kFirst + kSecond + "{\"kind\":\"log\",\"step\":3,\"ti"), last);
  EXPECT_EQ(missing(std::string(kStart) + kFirst + "{\"kind\":\"log\",\"step\":3,\"loss\":\"NaN\"}\n"), none);
  EXPECT_EQ(missing(std::string(kStart) + kFirst + "{\"kind\":\"start\",\"step\":2}\n"), std::vector<std::int64_t>{3});
}

TEST_F(LostLogs, AreUnknownWithoutAFile) {
  EXPECT_FALSE(lost_logs(folder_ / "metrics.jsonl", history_));
  EXPECT_FALSE(missing("other lines\n"));
}

TEST_F(LostLogs, HaveTheOrderInWhichTheyWereLogged) {
  const Logs logs = logs_of({4, {{"epoch", 1}, {"grad_norm", 2}, {"learning_rate", 3}, {"loss", 4}, {"more", 5}}});
  EXPECT_EQ(logs, (Logs{{"loss", 4}, {"grad_norm", 2}, {"learning_rate", 3}, {"more", 5}, {"epoch", 1}}));
}

}  // namespace
}  // namespace lockstep
