// Runs commands that say what devices there are, and whether they work.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/gpu/device_words.h"
#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using CudaChanges = std::map<std::string, std::optional<std::string>>;

nlohmann::json environment_of_devices(const CudaChanges& changes = {}) {
  const ProgramEnd end = run_program({kCudaBin + "/lockstep", "env", "--json"}, changes);
  EXPECT_EQ(end.code, 0) << end.err;
  return nlohmann::json::parse(end.out);
}

TEST(CudaCommands, EnvNamesEachDevice) {
  SKIP_BELOW_DEVICES(2);
  const auto shown = environment_of_devices();
  ASSERT_EQ(shown["cuda"]["devices"].size(), shown["host"]["cuda_devices"]);
  for (const char* name : {"driver", "runtime", "nccl"}) EXPECT_NE(shown["cuda"][name], "no") << name;
  const auto& device = shown["cuda"]["devices"][0];
  EXPECT_GT(device["memory_bytes"], 1 << 20);
  EXPECT_NE(device["compute_capability"], "0.0");
  EXPECT_TRUE(shown["warning"].empty()) << shown["warning"];
  if (!are_fake()) return;
  EXPECT_EQ(device["name"], "Fake GPU");
  EXPECT_EQ(device["memory_bytes"], 4096LL << 20);
  EXPECT_EQ(device["reads_memory_of"][0], 1);
  const auto apart = environment_of_devices({{"FAKE_GPU_PEER_ACCESS", "0"}});
  EXPECT_TRUE(apart["cuda"]["devices"][0]["reads_memory_of"].empty()) << apart["cuda"];
  const auto hidden = environment_of_devices({{"CUDA_VISIBLE_DEVICES", ""}});
  EXPECT_TRUE(hidden["cuda"]["devices"].empty());
  const ProgramEnd table = run_program({kCudaBin + "/lockstep", "env"});
  EXPECT_TRUE(cuda_text_has(table.out,
                            "device 1               Fake GPU, 4.0 GiB, compute capability 8.0, reads the memory of 0"))
      << table.out;
}

nlohmann::json doctor_on_devices(const std::string& steps, int code, const CudaChanges& changes = {}) {
  const TemporaryFolder folder;
  const ProgramEnd end = run_program({kCudaBin + "/lockstep", "doctor", "--size", "small", "--ranks", "2", "--steps",
                                      steps, "--output", folder / "doctor.json"},
                                     changes, std::chrono::seconds(300));
  EXPECT_EQ(end.code, code) << end.out << end.err;
  std::ifstream in(folder / "doctor.json");
  return nlohmann::json::parse(in, nullptr, false);
}

// Half a minute on fake devices: a dozen processes load LibTorch.
TEST(CudaCommands, DoctorFindsDevicesFit) {
  SKIP_BELOW_DEVICES(2);
  const auto report = doctor_on_devices("host,device,pairs,group,loss,contexts,equality", 0);
  ASSERT_EQ(report["steps"].size(), 7U) << report;
  for (const auto& step : report["steps"]) EXPECT_EQ(step["verdict"], "ok") << step;
  EXPECT_EQ(report["steps"][1]["figures"][0]["device"], "cuda:0");
  EXPECT_EQ(report["steps"][3]["figures"]["engines"][0]["engine"], "nccl");
  EXPECT_EQ(report["steps"][4]["figures"]["named"], "rank 1");
}

TEST(CudaCommands, DoctorTrainsOnDevices) {
  SKIP_BELOW_DEVICES(2);
  const auto report = doctor_on_devices("training,trainer", 0);
  ASSERT_EQ(report["steps"].size(), 2U) << report;
  for (const auto& step : report["steps"]) EXPECT_EQ(step["verdict"], "ok") << step;
}

TEST(CudaCommands, DoctorShowsWhatNcclSays) {
  SKIP_BELOW_DEVICES(2);
  if (!are_fake()) GTEST_SKIP() << "NCCL fails on demand on fake devices alone";
  const auto report = doctor_on_devices("group", 1, {{"FAKE_NCCL_FAIL_AT", "1"}, {"FAKE_NCCL_FAIL_KIND", "system"}});
  ASSERT_EQ(report["steps"].size(), 1U) << report;
  EXPECT_EQ(report["passed"], false);
  EXPECT_TRUE(cuda_text_has(report["steps"][0]["why"], "NCCL failed")) << report;
}

}  // namespace
}  // namespace lockstep
