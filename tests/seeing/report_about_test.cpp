// The part of a report that says what was trained.
#include "lockstep/seeing/report_about.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/base/files/atomic_file.h"
#include "lockstep/seeing/html_report.h"
#include "lockstep/seeing/metrics_log.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

nlohmann::json about_of_training() {
  return {{"model", "Bert<script>"},
          {"parameters", 4386178},
          {"trained_parameters", 258},
          {"train_file", "data/a&b.csv"},
          {"train_samples", 4000},
          {"eval_samples", 1000},
          {"command", "lockstep train --model 'a \"b\"'"},
          {"changed_arguments", {{"learning_rate", 0.001}, {"output_dir", "o'ut"}}},
          {"engine", "shm"},
          {"hosts", 2},
          {"host", "host-a"},
          {"processor", "EPYC"},
          {"cores", 2},
          {"lockstep", "1.2.3"},
          {"libtorch", "1.13.1"}};
}

std::map<std::string, std::string> summary_of(const ReportData& data) {
  const ReportRows rows = summary_rows(data);
  return {rows.begin(), rows.end()};
}

void write_log(const std::string& folder, const nlohmann::json& about) {
  MetricsLog log(folder + "/metrics.jsonl");
  log.write("start", 0, {{"max_steps", 20}, {"world_size", 4}, {"about", about}});
  log.write("log", 10, {{"eval_loss", 0.25}, {"eval_accuracy", 0.5}, {"eval_runtime", 3.0}});
  log.write("log", 20, {{"eval_loss", 0.75}, {"eval_accuracy", 0.625}, {"eval_samples_per_second", 5.0}});
  log.write("end", 20, nlohmann::json::object());
}

TEST(ReportAbout, SaysWhatWasTrainedOnWhatWithWhatAndHowItEnded) {
  const TemporaryFolder folder;
  write_log(folder.path(), about_of_training());
  const ReportData data = read_report_data(folder.path());
  const auto rows = summary_of(data);
  EXPECT_EQ(rows.at("model"), "Bert<script>, 4 386 178 parameters, 258 of them trained");
  EXPECT_EQ(rows.at("training data"), "data/a&b.csv, 4 000 samples");
  EXPECT_EQ(rows.at("evaluation data"), "1 000 samples");
  EXPECT_EQ(rows.at("command of a rank"), "lockstep train --model 'a \"b\"'");
  EXPECT_EQ(rows.at("arguments other than the defaults"), "learning_rate = 0.001, output_dir = o'ut");
  EXPECT_EQ(rows.at("ranks"), "4, on 2 hosts, engine shm");
  EXPECT_EQ(rows.at("machine of the first rank"), "host-a, EPYC, 2 cores");
  EXPECT_EQ(rows.at("versions"), "Lockstep 1.2.3, LibTorch 1.13.1");
  EXPECT_FALSE(rows.at("duration").empty());
  EXPECT_EQ(rows.at("final evaluation"), "eval_accuracy 0.625, eval_loss 0.75 (step 20)");
  EXPECT_EQ(rows.at("best evaluation"), "eval_loss 0.25 (step 10), eval_accuracy 0.625 (step 20)");
}

TEST(ReportAbout, StandsAboveTheChartsAndEscapesWhatItShows) {
  const TemporaryFolder folder;
  write_log(folder.path(), about_of_training());
  const std::string html = html_report(read_report_data(folder.path()));
  EXPECT_LT(html.find("What was trained"), html.find("Over the steps"));
  for (const char* raw : {"Bert<script>", "a&b.csv", "\"b\"", "o'ut"})
    EXPECT_EQ(html.find(raw), std::string::npos) << raw;
  EXPECT_NE(html.find("Bert&lt;script&gt;"), std::string::npos);
  EXPECT_NE(html.find("a&amp;b.csv"), std::string::npos);
}

// A log of an earlier version, or of another hand.
TEST(ReportAbout, LeavesOutWhatIsMissingOrOfAnotherKind) {
  for (const nlohmann::json& about :
       {nlohmann::json(), nlohmann::json("text"), nlohmann::json({{"model", 3}, {"parameters", "many"}}),
        nlohmann::json({{"changed_arguments", {1, 2}}, {"hosts", nullptr}, {"command", {"a"}}})}) {
    const TemporaryFolder folder;
    write_log(folder.path(), about);
    const auto rows = summary_of(read_report_data(folder.path()));
    EXPECT_EQ(rows.count("model") + rows.count("command of a rank"), 0U) << about;
    EXPECT_EQ(rows.count("final evaluation"), 1U) << about;
  }
  EXPECT_TRUE(summary_rows(ReportData()).empty());
}

TEST(ReportAbout, TheBestEvaluationIsThatOfTheMetricThatTheTrainingFollowed) {
  ReportData data;
  data.facts = {{"best metric", "0.8"}, {"best checkpoint", "out/checkpoint-10"}};
  data.arguments = {{"metric_for_best_model", "accuracy"}};
  data.logs["eval_loss"] = {{10, 0.5}, {20, 0.25}};
  EXPECT_EQ(summary_of(data).at("best evaluation"), "accuracy 0.8, out/checkpoint-10");
}

}  // namespace
}  // namespace lockstep
