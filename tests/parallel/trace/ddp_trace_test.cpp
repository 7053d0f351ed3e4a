// Traces of real ranks: the file has every rank and every bucket, and names the rank that came last.
#include <gtest/gtest.h>
#include <signal.h>
#include <torch/torch.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/comm/trace.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using TraceJson = nlohmann::json;

struct TracedNetImpl : torch::nn::Module {
  TracedNetImpl() {
    register_module("first", first);
    register_module("second", second);
  }
  torch::Tensor forward(const torch::Tensor& x) { return second->forward(torch::tanh(first->forward(x))); }
  torch::nn::Linear first{64, 64}, second{64, 64};
};
TORCH_MODULE(TracedNet);

TraceJson json_of(const std::string& file) {
  std::ifstream in(file);
  return TraceJson::parse(in);
}

// In the process of a rank, whose group LOCKSTEP_TRACE traces.
class TracedTraining {
 public:
  TracedTraining(const std::string& engine, const Membership& place, const TemporaryFolder& folder,
                 const std::string& file)
      : place_(place) {
    ::setenv("LOCKSTEP_TRACE", file.c_str(), 1);
    ::setenv("LOCKSTEP_TRACE_STEPS", "2-4", 1);
    ::unsetenv("LOCKSTEP_STORE");
    init_process_group(engine, "file://" + (folder / "meeting"), place.world_size, place.rank);
  }
  ~TracedTraining() { destroy_process_group(); }

  /// Rank 1 begins its forward when rank 0's backward has reached the first layer, so that its first bucket is the
  /// last.
  void make_steps(int steps, const std::function<void(int step)>& before = nullptr) {
    torch::manual_seed(1);
    TracedNet net;
    DistributedDataParallelOptions options;
    options.bucket_cap_mb = 0.01;
    DistributedDataParallel ddp(net, options);
    SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1));
    int step = 0;
    if (place_.rank == 0) {
      net->first->weight.register_hook(
          [&](const torch::Tensor&) { place_.store->set("go" + std::to_string(step), ""); });
    }
    for (step = 1; step <= steps; ++step) {
      if (before) before(step);
      if (place_.rank == 1) place_.store->get("go" + std::to_string(step), Deadline::after(std::chrono::seconds(60)));
      optimizer.zero_grad();
      ddp(torch::ones({8, 64})).sum().backward();
      optimizer.step();
    }
  }

 private:
  Membership place_;
};

class DdpTrace : public ::testing::TestWithParam<const char*> {};

TEST_P(DdpTrace, HasEveryRankAndBucketAndNamesTheLastRank) {
  const TemporaryFolder folder;
  const std::string file = folder / "trace.json";
  run_ranks_as_processes(
      2, [&](const Membership& place) { TracedTraining(GetParam(), place, folder, file).make_steps(6); });
  const TraceJson trace = json_of(file);
  EXPECT_EQ(trace["otherData"]["complete"], true) << trace["otherData"];
  EXPECT_EQ(trace["otherData"]["steps"], (TraceJson{2, 4}));
  std::map<std::string, int> spans;
  for (const TraceJson& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    EXPECT_GE(event["dur"], 0) << event;
    const std::string name = event["name"];
    ++spans[event["pid"].dump() + " " + event["args"]["step"].dump() + " " + name];
    if (name == "wait for bucket 0" && event["pid"] == 1) {
      EXPECT_EQ(event["args"]["waited_for_last_ms"], 0) << event;
    }
    if (name != "bucket 0") continue;
    EXPECT_EQ(event["args"]["last_rank"], 1) << event;
    EXPECT_EQ(event["args"]["dtype"], "float32");
  }
  for (const char* rank : {"0", "1"}) {
    for (const char* step : {"2", "3", "4"}) {
      for (const char* name : {"forward", "backward", "update", "bucket 0", "bucket 1", "wait for bucket 0"}) {
        const std::string key = std::string(rank) + " " + step + " " + name;
        EXPECT_EQ(spans[key], 1) << key;
      }
    }
  }
}

// Spans of a track that overlap are nested, as viewers need it.
TEST_P(DdpTrace, NestsItsSpans) {
  const TemporaryFolder folder;
  const std::string file = folder / "trace.json";
  run_ranks_as_processes(
      2, [&](const Membership& place) { TracedTraining(GetParam(), place, folder, file).make_steps(6); });
  std::map<std::pair<int, int>, std::vector<double>> open;  // by track: the ends of the spans around
  for (const TraceJson& event : json_of(file)["traceEvents"]) {
    if (event["ph"] != "X") continue;
    constexpr double kRounding_us = 0.001;
    const double begin = event["ts"], end = begin + event["dur"].get<double>();
    auto& around = open[{event["pid"], event["tid"]}];
    while (!around.empty() && around.back() <= begin + kRounding_us) around.pop_back();
    if (!around.empty()) {
      EXPECT_LE(end, around.back() + kRounding_us) << event;
    }
    around.push_back(end);
  }
}

TEST_P(DdpTrace, IsWrittenIfARankDies) {
  const TemporaryFolder folder;
  const std::string file = folder / "trace.json";
  const auto ends = ranks_as_processes(2, [&](const Membership& place) {
    TracedTraining training(GetParam(), place, folder, file);
    training.make_steps(6, [&](int step) {
      if (place.rank == 1 && step == 4) ::raise(SIGKILL);
    });
  });
  EXPECT_TRUE(ends[0].failed);
  const TraceJson trace = json_of(file);
  EXPECT_EQ(trace["otherData"]["complete"], false);
  EXPECT_EQ(trace["otherData"]["clocks"].size(), 1U);
  EXPECT_NE(trace["otherData"]["missing"].dump().find("rank 1 was lost"), std::string::npos) << trace["otherData"];
  bool has_step = false;
  for (const TraceJson& event : trace["traceEvents"]) has_step = has_step || event["name"] == "bucket 0";
  EXPECT_TRUE(has_step);
}

TEST_P(DdpTrace, IsRefusedAtTheStartIfItCannotBeWritten) {
  const TemporaryFolder folder;
  const auto ends = ranks_as_processes(
      2, [&](const Membership& place) { TracedTraining(GetParam(), place, folder, "/proc/trace.json").make_steps(1); });
  for (const RankOutcome& end : ends) {
    EXPECT_TRUE(end.failed);
    EXPECT_NE(end.text.find("the trace cannot be written"), std::string::npos) << end.text;
    EXPECT_NE(end.text.find("/proc/trace.json"), std::string::npos) << end.text;
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, DdpTrace, ::testing::Values("tcp"),
                         [](const auto& test) { return std::string(test.param); });
INSTANTIATE_TEST_SUITE_P(EnginesLong, DdpTrace, ::testing::Values("shm", "gloo"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace lockstep
