// Tests that `lockstep bench strangers` attacks a real job, and that the job trains as without strangers.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/e2e/launch.h"

namespace lockstep {
namespace {

TEST(BenchStrangers, ReachEveryPortOfAJobThatTrainsAllTheSame) {
  const ProgramEnd end = run_program({kBin + "/lockstep", "bench", "strangers", "--connections", "10000", "--json"});
  ASSERT_EQ(end.code, 0) << end.err;  // which compares the weights' digests
  const auto row = nlohmann::json::parse(end.out);
  EXPECT_GE(row.at("connections").get<int>(), 10000);
  EXPECT_GE(row.at("while_forming").get<int>(), 2000);
  // The store's, and those of all ranks but the last one, whose port is open for a moment only.
  EXPECT_GE(row.at("ports").get<int>(), 4);
  EXPECT_LE(row.at("ports").get<int>(), 5);
  EXPECT_GT(row.at("calls").get<int>(), 0);
  EXPECT_EQ(row.at("digest").get<std::string>().size(), 16U);
}

}  // namespace
}  // namespace lockstep
