// Tests what `lockstep plan` prints, and that it depends on the given link.
#include <nlohmann/json.hpp>

#include "lockstep/base/processor/topology.h"
#include "tests/e2e/launch.h"

namespace lockstep {
namespace {

ProgramEnd plan(const Words& flags) {
  Words words{kBin + "/lockstep", "plan", "--model", "mlp-wide", "--batch", "8", "--steps", "5"};
  words.insert(words.end(), flags.begin(), flags.end());
  return run_program(words, {}, std::chrono::seconds(240));
}

TEST(Plan, ForecastsMoreHostsFromOne) {
  const TemporaryFolder folder;
  const std::string chart = folder / "plan.svg";
  const ProgramEnd end = plan({"--hosts", "8,1,2,1024", "--link", "100mbit", "--json", "--plot", chart});
  ASSERT_EQ(end.code, 0) << end.err;
  const auto out = nlohmann::json::parse(end.out);
  const std::int64_t parameters = 122 * 1602 + 1602 + 3 * (1602 * 1602 + 1602) + 1602 * 2 + 2;
  EXPECT_EQ(out.at("measured").at("gradient_bytes"), 4 * parameters);
  EXPECT_EQ(out.at("link_bits_per_s"), 1e8);
  ASSERT_EQ(out.at("rows").size(), 4U);
  double before = 0;
  for (const auto& row : out.at("rows")) {
    const double step = row.at("default").at("step_ms");
    EXPECT_GE(step, before) << row;
    before = step;
    EXPECT_LE(row.at("best_buckets").at("step_ms"), step * 1.011) << row;
    EXPECT_LE(row.at("best_hook").at("step_ms"), row.at("best_buckets").at("step_ms").get<double>() * 1.011) << row;
    EXPECT_EQ(row.at("extrapolated"), row.at("hosts").get<int>() > 4) << row;
  }
  const auto& two = out.at("rows")[1];
  EXPECT_EQ(two.at("hosts"), 2);
  // The gradients take 2.5 s on this link.
  EXPECT_GT(two.at("default").at("step_ms"), 1e3 * 8 * 4 * static_cast<double>(parameters) / 1e8);
  EXPECT_EQ(two.at("best_hook").at("hook"), "int8");
  EXPECT_LT(two.at("best_hook").at("step_ms"), 0.5 * two.at("default").at("step_ms").get<double>());
  EXPECT_TRUE(has(content(chart), "best hook")) << content(chart);
}

// 31.6 MB of weights, P, on each of two hosts: 4 P with DDP, 3.5 P in stage 1 (weights, gradients, half of their sums
// and of the state), 2.5 P and the buckets' pool in stage 2, and in stage 3 half of P less and what is gathered more.
TEST(PlanLong, ChoosesTheFastestStageThatFits) {
  const auto row = [](const std::string& memory) {
    const ProgramEnd end = plan({"--hosts", "2", "--link", "1gbit", "--memory", memory, "--json"});
    EXPECT_EQ(end.code, 0) << end.err;
    return nlohmann::json::parse(end.out).at("rows")[0];
  };
  const auto roomy = row("1gb");
  ASSERT_EQ(roomy.at("stages").size(), 4U);
  const double weights = 4 * (122 * 1602 + 1602 + 3 * (1602 * 1602 + 1602) + 1602 * 2 + 2);
  const auto bytes = [&](std::size_t stage) { return roomy.at("stages")[stage].at("bytes_per_host").get<double>(); };
  const double activations = bytes(0) - 4 * weights;
  EXPECT_GT(activations, 0);
  EXPECT_NEAR(bytes(1) - activations, 3.5 * weights, 8);
  EXPECT_GT(bytes(2) - activations, 2.5 * weights);
  EXPECT_LT(bytes(2), bytes(1) + weights);
  EXPECT_GT(bytes(3), bytes(2) - weights / 2);
  EXPECT_LE(bytes(3), bytes(2) + weights / 2 + 8);
  double fastest = 1e9;
  for (const auto& stage : roomy.at("stages")) {
    EXPECT_TRUE(stage.at("fits"));
    fastest = std::min(fastest, stage.at("step_ms").get<double>());
  }
  EXPECT_EQ(roomy.at("choice").at("step_ms"), fastest);
  EXPECT_TRUE(row("1mb").at("choice").is_null());
  EXPECT_NE(row("115mb").at("choice").at("stage"), 0) << "126 MB do not fit";
}

TEST(PlanLong, SaysThatRanksShareCores) {
  const ProgramEnd end =
      run_program({kBin + "/lockstep", "plan", "--model", "mlp", "--steps", "5", "--nproc-per-node", "4", "--threads",
                   std::to_string(available_cores()), "--hosts", "4,1,2,2,1", "--json"},
                  {}, std::chrono::seconds(240));
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(has(end.err, "warning: 4 rank(s)")) << end.err;
  const auto out = nlohmann::json::parse(end.out);
  EXPECT_TRUE(out.contains("warning"));
  ASSERT_EQ(out.at("rows").size(), 3U) << out;
  double before = out.at("measured").at("host_step_ms");
  EXPECT_EQ(out.at("rows")[0].at("default").at("step_ms"), before);
  for (const auto& row : out.at("rows")) {
    EXPECT_GE(row.at("default").at("step_ms"), before) << row;
    before = row.at("default").at("step_ms");
    for (const char* way : {"default", "best_buckets", "best_hook"}) EXPECT_LE(row.at(way).at("efficiency"), 1) << row;
  }
}

// Seconds: it measures an all-reduce on this machine before the step.
TEST(Plan, SaysWhatDoesNotFitIntoMemory) {
  const ProgramEnd end =
      run_program({kBin + "/lockstep", "plan", "--model", "mlp", "--steps", "3", "--batch", "9999999999"});
  EXPECT_EQ(end.code, 1) << end.out;
  EXPECT_TRUE(has(end.err, "a step of mlp with --batch 9999999999 failed")) << end.err;
  EXPECT_TRUE(has(end.err, "give a smaller --batch")) << end.err;
  EXPECT_FALSE(has(end.err, "frame #")) << end.err;
}

// Seconds: it measures steps and an all-reduce on this machine first.
TEST(Plan, SaysWhatItExtrapolates) {
  const ProgramEnd end = plan({"--hosts", "2,64", "--link", "10gbit"});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(has(end.out, "links of 1e+04 Mbit/s") || has(end.out, "links of 10000 Mbit/s")) << end.out;
  EXPECT_TRUE(has(end.out, "% *\n")) << end.out;
  EXPECT_TRUE(has(end.out, "* Measured here")) << end.out;
}

}  // namespace
}  // namespace lockstep
