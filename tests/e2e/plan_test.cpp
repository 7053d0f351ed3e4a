// `lockstep plan`: what it prints, and that it follows from the link that it was given.
#include <nlohmann/json.hpp>

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
  // The gradients take 2.5 s of this link; an eighth of their bits, and the rest for computing, would be another model.
  EXPECT_GT(two.at("default").at("step_ms"), 1e3 * 8 * 4 * static_cast<double>(parameters) / 1e8);
  EXPECT_EQ(two.at("best_hook").at("hook"), "int8");
  EXPECT_LT(two.at("best_hook").at("step_ms"), 0.5 * two.at("default").at("step_ms").get<double>());
  EXPECT_TRUE(has(content(chart), "best hook")) << content(chart);
}

TEST(Plan, SaysWhatItExtrapolates) {
  const ProgramEnd end = plan({"--hosts", "2,64", "--link", "10gbit"});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(has(end.out, "links of 1e+04 Mbit/s") || has(end.out, "links of 10000 Mbit/s")) << end.out;
  EXPECT_TRUE(has(end.out, "% *\n")) << end.out;
  EXPECT_TRUE(has(end.out, "* Measured here")) << end.out;
}

TEST(Plan, RefusesWhatItCannotRead) {
  const auto refused = [](const Words& flags, const std::string& text) {
    const ProgramEnd end = plan(flags);
    EXPECT_EQ(end.code, 2) << end.out;
    EXPECT_TRUE(has(end.err, text)) << end.err;
  };
  refused({"--link", "fast"}, "--link");
  refused({"--link", "100"}, "--link");
  refused({"--link", "0mbit"}, "--link");
  refused({"--latency", "-1us"}, "--latency");
  refused({"--hosts", "0"}, "--hosts");
  const ProgramEnd end = run_program({kBin + "/lockstep", "plan", "--model", "bert-giant"});
  EXPECT_EQ(end.code, 2);
  EXPECT_TRUE(has(end.err, "bert-mini")) << end.err;
}

}  // namespace
}  // namespace lockstep
