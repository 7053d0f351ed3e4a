// Tests that `lockstep bench batch-size`, `bench wrappers` and the chart of `bench step` measure what they claim.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "lockstep/base/files/atomic_file.h"
#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

ProgramEnd bench_training(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {std::string(LOCKSTEP_BIN_DIR) + "/lockstep", "bench"});
  return run_program(arguments, {}, std::chrono::seconds(300));
}

bool shows(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::size_t times_in(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Finds the plateau independently, from the largest size down: the smallest size that no larger one exceeds by the
// gain.
nlohmann::json plateau_of(const nlohmann::json& points, double gain_percent) {
  nlohmann::json found;
  double best = points.back()["samples_per_s"];
  for (std::size_t i = points.size() - 1; i-- > 0;) {
    const double rate = points[i]["samples_per_s"];
    if (best <= (1 + gain_percent / 100) * rate) found = points[i]["batch"];
    best = std::max(best, rate);
  }
  return found;
}

TEST(BenchBatchSizeLong, MeasuresEveryWrapperAtEverySizeItCanTake) {
  const TemporaryFolder folder;
  const ProgramEnd end = bench_training({"batch-size", "--model", "mlp", "--batch", "64,1,8", "--replicas", "1,2",
                                         "--wrappers", "data-parallel,parallel-loss,ddp-threads,ddp-processes",
                                         "--rounds", "1", "--steps", "5", "--plot", folder / "chart.svg", "--json"});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(end.err, "") << "no progress where nobody watches";
  const auto out = nlohmann::json::parse(end.out);
  ASSERT_EQ(out["curves"].size(), 9U) << "one device, and four wrappers with one and two replicas";
  std::set<std::pair<std::string, int>> seen;
  std::size_t rings = 0;
  for (const auto& curve : out["curves"]) {
    seen.emplace(curve["wrapper"], curve["replicas"]);
    const bool needs_equal_parts = curve["wrapper"].get<std::string>().rfind("ddp-", 0) == 0 && curve["replicas"] == 2;
    std::vector<int> sizes;
    for (const auto& point : curve["points"]) {
      sizes.push_back(point["batch"]);
      EXPECT_GT(point["median_ms"], 0);
      EXPECT_NEAR(point["samples_per_s"].get<double>() * point["median_ms"].get<double>() / 1000, sizes.back(), 1e-6);
    }
    EXPECT_EQ(sizes, needs_equal_parts ? std::vector<int>({8, 64}) : std::vector<int>({1, 8, 64})) << curve;
    EXPECT_EQ(curve["stops_growing_at"], plateau_of(curve["points"], out["gain_percent"])) << curve;
    if (!curve["stops_growing_at"].is_null()) ++rings;
  }
  EXPECT_EQ(seen.size(), 9U);
  const std::string svg = read_file(folder / "chart.svg");
  EXPECT_TRUE(shows(svg, "ddp-processes x2")) << svg;
  EXPECT_EQ(times_in(svg, "<path "), 18U) << "two charts of nine lines";
  EXPECT_EQ(times_in(svg, "class=\"ring\""), rings);
}

// If no increase reaches the required gain, throughput has stopped growing at the smallest size.
TEST(BenchBatchSize, MarksWhereThroughputStopsGrowing) {
  const TemporaryFolder folder;
  const ProgramEnd end = bench_training({"batch-size", "--model", "convnet", "--batch", "2,4", "--replicas", "1",
                                         "--wrappers", "data-parallel", "--rounds", "1", "--steps", "3", "--gain",
                                         "100000", "--plot", folder / "chart.svg"});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(times_in(end.out, "  throughput stops growing\n"), 2U) << end.out;
  EXPECT_TRUE(shows(end.out, "no larger one exceeds by more than 100000 %")) << end.out;
  EXPECT_EQ(times_in(read_file(folder / "chart.svg"), "class=\"ring\""), 2U);
}

TEST(BenchBatchSizeLong, ReadsRealRecords) {
  const std::string file = std::string(LOCKSTEP_SHARED_DATA) + "/nsl-kdd/KDDTest+.txt.gz";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "NSL-KDD is not at " << file;
  const std::vector<std::string> flags{"batch-size", "--model",     "mlp",        "--data", file,
                                       "--wrappers", "ddp-threads", "--replicas", "2",      "--rounds",
                                       "1",          "--steps",     "3",          "--batch"};
  std::vector<std::string> all = flags;
  all.push_back("22544");
  const ProgramEnd end = bench_training(all);
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(shows(end.out, "ddp-threads x2")) << end.out;
  std::vector<std::string> too_many = flags;
  too_many.push_back("22545");
  const ProgramEnd refused = bench_training(too_many);
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(shows(refused.err, "--batch has 22545, but there are 22544 samples")) << refused.err;
}

TEST(BenchWrappersLong, ComparesFiveWaysOnOneText) {
  const ProgramEnd end = bench_training({"wrappers", "--model", "bert-tiny", "--batch", "4", "--seq", "16",
                                         "--replicas", "2", "--rounds", "1", "--steps", "3", "--json"});
  ASSERT_EQ(end.code, 0) << end.err;
  const auto rows = nlohmann::json::parse(end.out);
  ASSERT_EQ(rows.size(), 6U);
  const std::vector<std::string> wrappers{"one-device",    "one-device",  "data-parallel",
                                          "parallel-loss", "ddp-threads", "ddp-processes"};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i]["wrapper"], wrappers[i]);
    EXPECT_GT(rows[i]["median_ms"], 0);
    // 4.4 million parameters, with gradients and Adam's two moments: 67 MiB.
    EXPECT_GT(rows[i]["memory_mib"], 67) << rows[i];
    EXPECT_GT(rows[i]["lines"], 10) << rows[i];
  }
  EXPECT_EQ(rows[0]["lines_changed"], 0);
  EXPECT_GT(rows[2]["lines_changed"], 0);
  EXPECT_LT(rows[2]["lines_changed"], rows[4]["lines_changed"]) << "ranks need more than replicas";
}

// Seconds: a process for each way of training is started and timed.
TEST(BenchWrappers, PrintsATable) {
  const ProgramEnd end = bench_training(
      {"wrappers", "--model", "mlp", "--batch", "6", "--replicas", "2", "--rounds", "1", "--steps", "2"});
  ASSERT_EQ(end.code, 0) << end.err;
  for (const char* wrapper : {"one-device", "data-parallel", "parallel-loss", "ddp-threads", "ddp-processes"}) {
    EXPECT_TRUE(shows(end.out, std::string("\n") + wrapper)) << end.out;
  }
}

// Seconds: four groups of processes are timed.
TEST(BenchStep, DrawsItsChart) {
  const TemporaryFolder folder;
  const ProgramEnd end =
      bench_training({"step", "--model", "mlp-kdd", "--batch", "4", "--ranks", "1,2", "--modes", "fused,alone",
                      "--rounds", "1", "--steps", "3", "--plot", folder / "step.svg"});
  ASSERT_EQ(end.code, 0) << end.err;
  const std::string svg = read_file(folder / "step.svg");
  EXPECT_TRUE(shows(svg, ">lockstep-alone<")) << svg;
  EXPECT_EQ(times_in(svg, "<circle "), 4U) << "two systems, one and two ranks\n" << svg;
}

// Not the figures, which depend on the machine.
TEST(BenchStepLong, SaysWhatATraceCosts) {
  const ProgramEnd end = bench_training({"step", "--model", "mlp-kdd", "--batch", "4", "--ranks", "2", "--modes",
                                         "fused-traced", "--rounds", "1", "--steps", "3"});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(shows(end.out, "; a trace: ")) << end.out;
}

// Another build takes its turns beside this one, and every row says which LibTorch and precision it stands for.
TEST(BenchStepLong, ComparesWithAnotherBuild) {
  const std::string build = std::filesystem::path(LOCKSTEP_BIN_DIR).parent_path().string();
  const ProgramEnd end = bench_training({"step", "--model", "mlp-kdd", "--batch", "4", "--ranks", "2", "--builds",
                                         build, "--rounds", "1", "--steps", "3", "--json"});
  ASSERT_EQ(end.code, 0) << end.err;
  const auto rows = nlohmann::json::parse(end.out);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["system"], "lockstep");
  EXPECT_EQ(rows[1]["system"], "lockstep@" + std::filesystem::path(build).filename().string());
  for (const auto& row : rows) {
    EXPECT_GT(row["median_ms"], 0);
    EXPECT_TRUE(shows(row["details"], "LibTorch ")) << row;
    EXPECT_TRUE(shows(row["details"], "fp32 products: highest")) << row;
  }
}

// The number at `offset` in a PNG, most significant byte first.
std::uint32_t png_number(const std::string& png, std::size_t offset) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i) number = number << 8 | static_cast<unsigned char>(png.at(offset + i));
  return number;
}

TEST(BenchStep, DrawsItsChartAsPng) {
  const TemporaryFolder folder;
  const std::vector<std::string> flags{"step",    "--model", "mlp-kdd", "--batch", "4",
                                       "--ranks", "1",       "--modes", "alone",   "--rounds",
                                       "1",       "--steps", "3",       "--plot",  folder / "step.png"};
  const ProgramEnd end = bench_training(flags);
  if (shows(end.err, "this build cannot write PNG")) {
    EXPECT_EQ(end.code, 2);
    GTEST_SKIP() << "librsvg2-dev was not installed when this was configured";
  }
  ASSERT_EQ(end.code, 0) << end.err;
  const std::string png = read_file(folder / "step.png");
  ASSERT_GT(png.size(), 33U);
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1A\n");
  EXPECT_EQ(png.substr(12, 4), "IHDR");
  EXPECT_EQ(png.substr(png.size() - 8, 4), "IEND");
  const std::uint32_t width = png_number(png, 16);
  const std::uint32_t height = png_number(png, 20);
  EXPECT_GT(width, height);
  EXPECT_GT(height, 400U);
  EXPECT_GT(png.size(), width * height / 200) << "an empty page has a byte for 1000 pixels or less";
}

// Seconds: four trainings by processes of their own.
TEST(BenchPrecision, ComparesTheLossesOfEachSeed) {
  const TemporaryFolder folder;
  const std::string data = std::string(LOCKSTEP_SOURCE_DIR) + "/data";
  const ProgramEnd end = bench_training({"precision",
                                         "--seeds",
                                         "2",
                                         "--logging-steps",
                                         "2",
                                         "--plot",
                                         folder / "bands.svg",
                                         "--json",
                                         "--",
                                         "--task",
                                         "text-classification",
                                         "--model",
                                         "bert-tiny",
                                         "--tokenizer",
                                         data + "/reviews-vocab",
                                         "--train-file",
                                         data + "/reviews.csv",
                                         "--label-column",
                                         "division",
                                         "--max-length",
                                         "16",
                                         "--max-steps",
                                         "4"});
  ASSERT_EQ(end.code, 0) << end.err;
  const auto out = nlohmann::json::parse(end.out);
  ASSERT_EQ(out["points"].size(), 2U);
  for (const auto& point : out["points"]) {
    for (const char* type : {"fp32", "bf16"}) {
      const double least = point[type]["least"], most = point[type]["most"];
      EXPECT_LT(least, most) << "two seeds have two losses";
      EXPECT_NEAR(point[type]["mean"].get<double>(), (least + most) / 2, 1e-9) << "of two";
    }
    const double mean = point["bf16"]["mean"];
    EXPECT_EQ(point["inside"].get<bool>(), mean >= point["fp32"]["least"] && mean <= point["fp32"]["most"]);
  }
  EXPECT_GT(out["largest_difference"], 0) << "bf16 rounds";
  EXPECT_LT(out["largest_difference"], 0.1);
  EXPECT_TRUE(shows(read_file(folder / "bands.svg"), "bf16, mean"));
}

TEST(BenchPrecision, ShowsWhatATrainingSaidThatFailed) {
  const ProgramEnd end = bench_training({"precision", "--", "--task", "text-classification", "--model", "bert-huge"});
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(shows(end.err, "the training failed; it wrote:")) << end.err;
}

struct TrainingBenchMistake {
  const char* name;
  std::vector<std::string> flags;
  std::string says;
  friend std::ostream& operator<<(std::ostream& out, const TrainingBenchMistake& m) { return out << m.name; }
};
class TrainingBenches : public ::testing::TestWithParam<TrainingBenchMistake> {};

TEST_P(TrainingBenches, RefuseWhatMakesNoSense) {
  const ProgramEnd end = bench_training(GetParam().flags);
  EXPECT_EQ(end.code, 2) << end.err;
  EXPECT_TRUE(shows(end.err, GetParam().says)) << end.err;
}

INSTANTIATE_TEST_SUITE_P(
    Table, TrainingBenches,
    ::testing::Values(
        TrainingBenchMistake{
            "unequal_parts", {"wrappers", "--batch", "5", "--replicas", "2"}, "cut into 2 equal parts"},
        TrainingBenchMistake{"no_picture", {"batch-size", "--plot", "chart.txt"}, "end it in .svg or .png"},
        TrainingBenchMistake{"step_without_picture", {"step", "--plot", "chart"}, "end it in .svg or .png"},
        TrainingBenchMistake{"picture_nowhere", {"step", "--plot", "/nowhere/chart.svg"}, "into /nowhere"},
        TrainingBenchMistake{"build_without_benchmarks",
                             {"step", "--builds", "/nowhere"},
                             "there is no program /nowhere/bin/lockstep-step-worker"},
        TrainingBenchMistake{"texts_of_nothing", {"step", "--model", "bert-tiny", "--seq", "0"}, "--seq"},
        TrainingBenchMistake{"length_of_no_text", {"batch-size", "--model", "mlp", "--seq", "8"}, "takes no texts"},
        TrainingBenchMistake{"length_of_no_image", {"wrappers", "--model", "convnet", "--seq", "8"}, "takes no texts"},
        TrainingBenchMistake{"batch_of_nothing", {"batch-size", "--batch", "0"}, "--batch"},
        TrainingBenchMistake{"unknown_model", {"wrappers", "--model", "bert-huge"}, "bert-huge"},
        TrainingBenchMistake{"gain_below_zero", {"batch-size", "--gain", "-1"}, "--gain"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lockstep
