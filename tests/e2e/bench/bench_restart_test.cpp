// Tests that `lockstep bench restart` measures real restarts.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/e2e/launch.h"

namespace lockstep {
namespace {

TEST(BenchRestart, PrintsBothWaysOfStartingAgain) {
  const ProgramEnd end =
      run_program({kBin + "/lockstep", "bench", "restart", "--rounds", "1", "--python", "/bin/false", "--json"});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(has(end.err, "no torchrun: /bin/false has no torch")) << end.err;
  const auto rows = nlohmann::json::parse(end.out);
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0].at("system"), "lockstep run");
  EXPECT_EQ(rows[1].at("system"), "lockstep run --warm-spares");
  EXPECT_EQ(rows[2].at("system"), "lockstep run lockstep train");
  EXPECT_EQ(rows[3].at("system"), "the same --warm-spares");
  for (const auto& row : rows) EXPECT_GT(row.at("median_s").get<double>(), 0);
}

}  // namespace
}  // namespace lockstep
