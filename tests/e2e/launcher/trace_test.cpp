// `lockstep run --trace`: the ranks' trace comes to its place also if the job fails.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/e2e/launch.h"
#include "tests/e2e/train/review_classification.h"

namespace lockstep {
namespace {

TEST(Trace, OfATrainingIsCompleteAndSummarised) {
  const TemporaryFolder folder;
  const std::string file = folder / "trace.json";
  Changes one_thread = kNoThreads;
  one_thread["OMP_NUM_THREADS"] = "1";
  const ProgramEnd end = run(
      {"--nproc-per-node=2", "--trace", file, "--trace-steps", "2-4"},
      review_classification(folder / "out", {"--max-train-samples", "64", "--max-length", "16", "--max-steps", "6"}),
      one_thread);
  ASSERT_EQ(end.code, 0) << end.err;
  const auto trace = nlohmann::json::parse(content(file));
  EXPECT_EQ(trace["otherData"]["complete"], true) << trace["otherData"];
  EXPECT_EQ(trace["otherData"]["steps"], (nlohmann::json{2, 4}));
  std::map<std::string, int> spans;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X") ++spans[event["pid"].dump() + " " + event["name"].get<std::string>()];
  }
  for (const char* rank : {"0 ", "1 "}) {
    for (const char* name : {"data", "forward", "backward", "update", "update bucket 0"}) {
      EXPECT_EQ(spans[std::string(rank) + name], 3) << rank << name;
    }
  }
  EXPECT_TRUE(has(end.err, "lockstep run: steps 2 to 4, ms of a step:")) << end.err;
}

TEST(Trace, OfOneProcessHasDataParallelsParts) {
  const TemporaryFolder folder;
  const std::string file = folder / "trace.json";
  const ProgramEnd end = run_program(
      review_classification(folder / "out", {"--max-train-samples", "64", "--max-length", "16", "--max-steps", "5",
                                             "--replicas", "2", "--trace", file, "--trace-steps", "2-3"}),
      {});
  ASSERT_EQ(end.code, 0) << end.err;
  std::map<std::string, int> spans;
  const auto trace = nlohmann::json::parse(content(file));
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["args"].contains("device")) {
      ++spans[event["args"]["device"].dump() + " " + event["name"].get<std::string>()];
    }
  }
  for (const char* device : {"0 ", "1 "}) {
    for (const char* part : {"forward", "backward"}) EXPECT_EQ(spans[std::string(device) + part], 2) << device << part;
  }
  EXPECT_TRUE(has(end.out, "steps 2 to 3, ms of a step:")) << end.out;
}

// Rank 0, which would write the file, ends by an exception; the launcher ends the others.
TEST(Trace, IsWrittenByTheRanksThatAreLeft) {
  const TemporaryFolder folder;
  const std::string file = folder / "trace.json";
  const ProgramEnd end = run({"--nproc-per-node=3", "--trace", file}, {kBin + "/failing_rank", "throw", "shm"});
  EXPECT_EQ(end.code, 1) << end.err;
  EXPECT_TRUE(has(end.err, "this is the fault")) << end.err;
  ASSERT_TRUE(fs::exists(file)) << end.err;
  const auto about = nlohmann::json::parse(content(file))["otherData"];
  EXPECT_EQ(about["complete"], false);
  EXPECT_EQ(about["world_size"], 3);
  EXPECT_TRUE(has(about["missing"].dump(), "rank 0 was lost")) << about;
  EXPECT_TRUE(has(end.err, "trace incomplete: rank 0 was lost")) << end.err;
  EXPECT_TRUE(has(end.err, "trace written: " + file)) << end.err;
}

TEST(Trace, IsRefusedBeforeTheRanksTrain) {
  const ProgramEnd end =
      run({"--nproc-per-node=2", "--trace", "/proc/trace.json"}, {kBin + "/failing_rank", "hang", "shm"});
  EXPECT_EQ(end.code, 1) << end.err;
  EXPECT_TRUE(has(end.err, "the trace cannot be written: ")) << end.err;
  EXPECT_TRUE(has(end.err, "/proc/trace.json")) << end.err;
}

TEST(Trace, FlagsThatMakeNoSenseAreRefused) {
  const ProgramEnd backwards = run({"--trace", "trace.json", "--trace-steps", "5-3"}, {"true"});
  EXPECT_EQ(backwards.code, 2);
  EXPECT_TRUE(has(backwards.err, "\"5-3\" is not a range of steps")) << backwards.err;
  const ProgramEnd alone = run({"--trace-steps", "3-5"}, {"true"});
  EXPECT_EQ(alone.code, 2);
  EXPECT_TRUE(has(alone.err, "--trace-steps needs --trace")) << alone.err;
}

}  // namespace
}  // namespace lockstep
