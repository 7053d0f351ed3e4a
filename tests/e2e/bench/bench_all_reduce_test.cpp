// Tests that `lockstep bench all-reduce` gives every row its bound and its share of it, and checks the sums.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/running_program.h"
#include "tests/support/test_size.h"

namespace lockstep {
namespace {

ProgramEnd bench_all_reduce(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {std::string(LOCKSTEP_BIN_DIR) + "/lockstep", "bench", "all-reduce"});
  return run_program(arguments, {}, std::chrono::seconds(300));
}

// 128 KiB: the operations between two looks at the clock do not divide the buffers of a turn.
TEST(BenchAllReduce, GivesEachRowItsShareOfTheBound) {
  const std::string ranks = test_size("2", "2,3"), sizes = test_size("131072", "4,131072");
  const ProgramEnd end =
      bench_all_reduce({"--ranks", ranks, "--sizes", sizes, "--engines", "shm,thread", "--rounds", "1", "--json"});
  ASSERT_EQ(end.code, 0) << end.err;
  const auto rows = nlohmann::json::parse(end.out);
  ASSERT_EQ(rows.size(), test_size(2U, 8U)) << rows.dump(2);
  for (const auto& row : rows) {
    const double bound_us = row["bound_us"], median_us = row["median_us"];
    EXPECT_GT(bound_us, 0) << row;
    EXPECT_GE(median_us, row["min_us"].get<double>()) << row;
    EXPECT_NEAR(row["of_bound"].get<double>() * median_us, bound_us, 1e-9 * bound_us) << row;
  }
}

// Seconds: it measures memory and an all-reduce.
TEST(BenchAllReduce, SaysWhatTheBoundIs) {
  const ProgramEnd end = bench_all_reduce({"--sizes", "4", "--engines", "shm", "--rounds", "1"});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_NE(end.out.find("a bare barrier"), std::string::npos) << end.out;
  EXPECT_NE(end.out.find("of bound"), std::string::npos) << end.out;
}

TEST(BenchAllReduce, RefusesASizeThatIsNoMultipleOfFour) {
  const ProgramEnd end = bench_all_reduce({"--sizes", "4097", "--engines", "shm"});
  EXPECT_NE(end.code, 0);
  EXPECT_NE(end.err.find("--sizes has 4097"), std::string::npos) << end.err;
}

}  // namespace
}  // namespace lockstep
