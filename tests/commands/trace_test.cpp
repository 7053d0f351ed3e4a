// Tests `lockstep trace`: it prints measurements of steps that were made.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/commands/run_command.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

// Bytes of each step and device. A step that occurs twice, such as scatter, is stored under "scatter 2".
std::map<std::string, std::int64_t> steps_of(const Json& mode) {
  std::map<std::string, std::int64_t> steps;
  for (const Json& span : mode["spans"]) {
    const std::string name = span["step"].get<std::string>() + " " + span["device"].get<std::string>();
    EXPECT_GE(span["ms"].get<double>(), 0);
    steps[steps.count(name) == 0 ? name : name + " 2"] = span["bytes"];
  }
  return steps;
}

TEST(Trace, ShowsTheStepsOfBothModesWithTheirBytes) {
  const ProgramEnd end =
      run_command({"trace", "--model", "bert-tiny", "--batch", "6", "--seq", "8", "--warmup", "1", "--json"});
  ASSERT_EQ(end.code, 0) << end.err;
  const Json result = Json::parse(end.out);
  ASSERT_EQ(result["modes"].size(), 2U);
  // Two float scores for each of 6 texts; 4386178 parameters, a gradient of 4 bytes each from the second replica.
  const std::map<std::string, std::int64_t> gathered = steps_of(result["modes"][0]);
  EXPECT_EQ(gathered.at("gather cpu:0"), 6 * 2 * 4);
  EXPECT_EQ(gathered.at("scatter cpu:0 2"), 6 * 2 * 4);
  EXPECT_EQ(gathered.at("broadcast cpu:1"), 0);
  EXPECT_EQ(gathered.at("reduce cpu:0"), 4386178 * 4);
  for (const char* step : {"scatter cpu:0", "forward cpu:0", "forward cpu:1", "loss cpu:0", "backward cpu:0",
                           "backward cpu:1", "update cpu:0"}) {
    EXPECT_EQ(gathered.count(step), 1U) << step;
  }
  // A float sum and an integer count from each replica.
  const std::map<std::string, std::int64_t> own = steps_of(result["modes"][1]);
  EXPECT_EQ(own.at("gather cpu:0"), 2 * (4 + 8));
  EXPECT_EQ(own.count("loss cpu:1"), 1U);
  EXPECT_NEAR(result["modes"][0]["loss"].get<double>(), result["modes"][1]["loss"].get<double>(), 1e-5);
}

TEST(Trace, WritesWhatChromeShows) {
  const TemporaryFolder folder;
  const std::string path = folder / "trace.json";
  const ProgramEnd end = run_command({"trace", "--model", "mlp", "--batch", "4", "--mode", "parallel-loss", "--devices",
                                      "cpu:0,cpu:1,cpu:2", "--output", path});
  ASSERT_EQ(end.code, 0) << end.err;
  std::ifstream file(path);
  const Json trace = Json::parse(file);
  std::map<std::string, int> phases;
  for (const Json& event : trace["traceEvents"]) {
    ++phases[event["ph"]];
    if (event["ph"] == "X") {
      EXPECT_GE(event["dur"].get<double>(), 0);
    }
  }
  EXPECT_EQ(phases["M"], 2) << "4 samples make 2 chunks of 2: the third replica has nothing to do";
  EXPECT_GT(phases["X"], 8);
}

TEST(Trace, RefusesWhatIsNoDevice) {
  for (const char* flag : {"--devices", "--output-device"}) {
    const ProgramEnd end = run_command({"trace", "--model", "mlp", flag, "tpu:0"});
    EXPECT_EQ(end.code, 2);
    EXPECT_NE(end.err.find(std::string(flag) + ": \"tpu:0\" is not a device for a replica"), std::string::npos)
        << end.err;
  }
}

TEST(Trace, SaysWhichDevicesThereAre) {
  const ProgramEnd end = run_command({"trace", "--model", "mlp", "--devices", "cuda:77"});
  EXPECT_EQ(end.code, 1);
  EXPECT_NE(end.err.find("there is no cuda:77"), std::string::npos) << end.err;
  EXPECT_NE(end.err.find("CUDA devices are seen here"), std::string::npos) << end.err;
  const ProgramEnd output = run_command({"trace", "--model", "mlp", "--output-device", "cuda:77"});
  EXPECT_EQ(output.code, 1);
  EXPECT_NE(output.err.find("there is no cuda:77"), std::string::npos) << output.err;
}

TEST(Trace, RefusesTokensForAModelWithoutTexts) {
  const ProgramEnd end = run_command({"trace", "--model", "mlp", "--seq", "8"});
  EXPECT_EQ(end.code, 2);
  EXPECT_TRUE(says(end.err, "--seq cannot be combined with --model mlp, which takes no texts")) << end.err;
}

// One device, or one sample for two: steps that divide nothing are shown, too.
TEST(Trace, ShowsTheBackwardOfOneReplica) {
  for (const CommandWords& alone : {CommandWords{"--devices", "cpu:0"}, {"--batch", "1"}}) {
    CommandWords arguments{"trace", "--model", "mlp", "--mode", "data-parallel", "--json"};
    arguments.insert(arguments.end(), alone.begin(), alone.end());
    const ProgramEnd end = run_command(arguments);
    ASSERT_EQ(end.code, 0) << end.err;
    const auto steps = steps_of(Json::parse(end.out)["modes"][0]);
    for (const char* step : {"forward cpu:0", "loss cpu:0", "backward cpu:0", "update cpu:0"}) {
      EXPECT_EQ(steps.count(step), 1U) << step;
    }
  }
}

}  // namespace
}  // namespace lockstep
