// Tests that `lockstep bench restart` measures real restarts.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/e2e/launch.h"

namespace lockstep {
namespace {

void expect_our_rows(const nlohmann::json& rows) {
  ASSERT_GE(rows.size(), 4U);
  EXPECT_EQ(rows[0].at("system"), "lockstep run");
  EXPECT_EQ(rows[1].at("system"), "lockstep run --warm-spares");
  EXPECT_EQ(rows[2].at("system"), "lockstep run lockstep train");
  EXPECT_EQ(rows[3].at("system"), "the same --warm-spares");
  for (std::size_t i = 0; i < 4; ++i) EXPECT_GT(rows[i].at("median_s").get<double>(), 0);
}

ProgramEnd bench_restart(const std::string& python) {
  return run_program({kBin + "/lockstep", "bench", "restart", "--rounds", "1", "--python", python, "--json"});
}

// Four real restarts. The peer is a torchrun whose job does not come back, as that of PyTorch 2.15 over Gloo.
TEST(BenchRestart, PrintsBothWaysOfStartingAgainBesideAPeerThatFails) {
  const TemporaryFolder folder;
  const std::string python = folder / "python";
  std::ofstream(python) << "#!/bin/sh\n[ \"$1\" = -c ] && exit 0\necho 'connectFullMesh failed: Connection refused'\n"
                           "exit 1\n";
  fs::permissions(python, fs::perms::owner_all);
  const ProgramEnd end = bench_restart(python);
  ASSERT_EQ(end.code, 0) << end.err;
  const auto rows = nlohmann::json::parse(end.out);
  expect_our_rows(rows);
  ASSERT_EQ(rows.size(), 6U);
  EXPECT_EQ(rows[4].at("system"), "torchrun");
  EXPECT_TRUE(has(rows[4].at("failure").get<std::string>(), "connectFullMesh failed")) << rows;
  EXPECT_TRUE(has(end.err, "torchrun did not start again: the job has ended")) << end.err;
}

TEST(BenchRestartLong, LeavesOutATorchrunThatIsNotThere) {
  const ProgramEnd end = bench_restart("/bin/false");
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(has(end.err, "no torchrun: /bin/false has no torch")) << end.err;
  const auto rows = nlohmann::json::parse(end.out);
  expect_our_rows(rows);
  EXPECT_EQ(rows.size(), 4U);
}

}  // namespace
}  // namespace lockstep
