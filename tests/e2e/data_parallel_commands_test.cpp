// Tests that `lockstep bench data-parallel` and `bench inference` print measurements of steps that were made.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/running_program.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

ProgramEnd replica_command(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), std::string(LOCKSTEP_BIN_DIR) + "/lockstep");
  return run_program(arguments);
}

TEST(BenchDataParallel, RefusesTokensForAModelWithoutTexts) {
  for (const char* benchmark : {"inference", "data-parallel"}) {
    const ProgramEnd end = replica_command({"bench", benchmark, "--model", "mlp", "--seq", "8"});
    EXPECT_EQ(end.code, 2) << benchmark;
    EXPECT_NE(end.err.find("--seq cannot be combined with --model mlp, which takes no texts"), std::string::npos)
        << end.err;
  }
}

TEST(BenchDataParallel, MeasuresStepsOverheadAndMemory) {
  const std::vector<std::string> small{"bench",     "data-parallel", "--model",  "mlp", "--batch", "8",
                                       "--devices", "cpu:0,cpu:1",   "--rounds", "1",   "--steps", "1",
                                       "--json"};
  const ProgramEnd end = replica_command(small);
  ASSERT_EQ(end.code, 0) << end.err;
  const Json result = Json::parse(end.out);
  EXPECT_GT(result["overhead_us"].get<double>(), 0);
  EXPECT_EQ(result["rows"].front()["method"], "one replica, 1 thread");
  EXPECT_EQ(result["rows"].back()["method"], "2 replicas, DataParallel");
  for (const Json& row : result["rows"]) EXPECT_GT(row["step_ms"].get<double>(), 0);
  std::vector<std::string> memory = small;
  memory.emplace_back("--memory");
  const ProgramEnd resident = replica_command(memory);
  ASSERT_EQ(resident.code, 0) << resident.err;
  EXPECT_GT(Json::parse(resident.out)["one_replica_mib"].get<double>(), 0);
}

TEST(BenchInference, PrintsOneReplicaBesideSeveral) {
  const ProgramEnd end = replica_command({"bench", "inference", "--model", "mlp", "--batch", "8,4,8", "--devices",
                                          "cpu:0,cpu:1", "--rounds", "1", "--steps", "2", "--json"});
  ASSERT_EQ(end.code, 0) << end.err;
  const Json rows = Json::parse(end.out);
  std::map<std::string, int> methods;
  for (const Json& row : rows) {
    ++methods[row["method"]];
    EXPECT_GT(row["samples_per_s"].get<double>(), 0);
  }
  EXPECT_EQ(methods["one replica, 1 thread"], 2);
  EXPECT_EQ(methods["2 replicas, batches cut"], 2);
  EXPECT_EQ(methods["2 replicas, batches whole"], 2);
}

}  // namespace
}  // namespace lockstep
