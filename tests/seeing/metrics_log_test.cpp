#include "lockstep/seeing/metrics_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/train/metrics_log_callback.h"
#include "tests/seeing/seeing_events.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

std::vector<nlohmann::json> lines_of(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line, nullptr, false));
  return lines;
}

TEST(MetricsLog, AppendsALineForEachEntry) {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  MetricsLog(path).write("log", 3, {{"loss", 0.5}, {"grad_norm", std::nan("")}});
  MetricsLog(path).write("end", 4, nlohmann::json::object());
  const auto lines = lines_of(path);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["kind"], "log");
  EXPECT_EQ(lines[0]["step"], 3);
  EXPECT_EQ(lines[0]["loss"], 0.5);
  EXPECT_EQ(lines[0]["grad_norm"], "NaN");
  EXPECT_GT(lines[0]["time"].get<double>(), 1.7e9);
  EXPECT_EQ(lines[1]["kind"], "end");
}

TEST(MetricsLog, ClosesALineThatACrashCutOff) {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  write_file_atomically(path, "{\"kind\":\"log\",\"st");
  MetricsLog(path).write("log", 1, {{"loss", 1.0}});
  const auto lines = lines_of(path);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(lines[0].is_discarded());
  EXPECT_EQ(lines[1]["loss"], 1.0);
}

TEST(MetricsLog, SaysWhyItCannotWrite) {
  const TemporaryFolder folder;
  EXPECT_THROW(MetricsLog(folder / "no/such/folder"), Error);
  if (std::filesystem::exists("/dev/full")) {
    EXPECT_THROW(MetricsLog("/dev/full").write("log", 1, nlohmann::json::object()), Error);
  }
}

TEST(MetricsLogCallback, RecordsArgumentsLogsPhasesAndMemory) {
  const TemporaryFolder folder;
  TrainingArguments args;
  args.output_dir = folder / "out";
  TrainerState state;
  state.max_steps = 6;
  MetricsLogCallback callback(2, 16);
  play_training(callback, args, state, 6, 3);
  std::vector<std::string> kinds;
  const auto lines = lines_of(folder / "out/metrics.jsonl");
  for (const auto& line : lines) kinds.push_back(line.at("kind").get<std::string>());
  EXPECT_EQ(kinds, (std::vector<std::string>{"start", "log", "phases", "log", "phases", "log", "end"}));
  EXPECT_EQ(lines[0]["arguments"]["learning_rate"], 5e-5);
  EXPECT_EQ(lines[0]["world_size"], 2);
  EXPECT_EQ(lines[1]["step"], 3);
  EXPECT_EQ(lines[3]["loss"], 1.0 / 6);
  EXPECT_EQ(lines[5]["eval_accuracy"], 0.75);
  for (const char* phase : {"data_s", "compute_s", "optimizer_s"}) EXPECT_GE(lines[2].at(phase).get<double>(), 0);
  const double steps_per_second = lines[2].at("steps_per_second").get<double>();
  EXPECT_GT(steps_per_second, 0);
  EXPECT_DOUBLE_EQ(lines[2].at("samples_per_second").get<double>(), 16 * steps_per_second);
  EXPECT_GT(lines[2].at("resident_bytes").get<std::int64_t>(), 1'000'000);
  EXPECT_GE(lines[2].at("peak_resident_bytes"), lines[2].at("resident_bytes"));
}

// Each virtual shard has a batch, whatever the number of ranks.
TEST(MetricsLogCallback, CountsTheSamplesOfVirtualShards) {
  const TemporaryFolder folder;
  TrainingArguments args;
  args.output_dir = folder / "out";
  args.per_device_train_batch_size = 4;
  args.virtual_shards = 6;
  TrainerState state;
  state.max_steps = 3;
  MetricsLogCallback callback(2);
  play_training(callback, args, state, 3, 3);
  EXPECT_EQ(lines_of(folder / "out/metrics.jsonl").at(0).at("samples_per_step"), 24);
}

TEST(MetricsLogCallback, WritesNothingOnOtherRanks) {
  const TemporaryFolder folder;
  TrainingArguments args;
  args.output_dir = folder / "out";
  TrainerState state;
  state.is_world_process_zero = false;
  MetricsLogCallback callback(2, 16);
  play_training(callback, args, state, 6, 3);
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

}  // namespace
}  // namespace lockstep
