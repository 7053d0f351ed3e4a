// Tests what `lockstep env` says of CUDA. tests/gpu has the tests with devices.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/commands/run_command.h"
#include "tools/lockstep/devices/cuda_facts.h"

namespace lockstep {
namespace {

TEST(Env, SaysWhyThereIsNoDevice) {
  const ProgramEnd end = run_command({"env", "--json"}, "", {{"CUDA_VISIBLE_DEVICES", ""}});
  ASSERT_EQ(end.code, 0) << end.err;
  const auto cuda = nlohmann::json::parse(end.out).at("cuda");
  EXPECT_TRUE(cuda.at("devices").empty()) << cuda;
  EXPECT_FALSE(cuda.at("why_no_devices").get<std::string>().empty()) << cuda;
  for (const char* name : {"driver", "kernel_module", "runtime", "nccl"})
    EXPECT_TRUE(cuda.at(name).is_string()) << name;
  const std::string table = run_well({"env"});
  EXPECT_TRUE(says(table, "why_no_devices")) << table;
}

CudaFacts facts_of_two_devices() {
  CudaFacts facts;
  facts.driver = "12.4";
  facts.runtime = "12.6";
  facts.has_torch_cuda = true;
  facts.devices = {{"Alpha", 80LL << 30, "9.0", {1}}, {"Beta", 512LL << 20, "8.6", {}}};
  return facts;
}

TEST(Env, NamesDevicesAndWhoseMemoryTheyRead) {
  const CudaFacts facts = facts_of_two_devices();
  EXPECT_EQ(device_text(facts.devices[0]), "Alpha, 80.0 GiB, compute capability 9.0, reads the memory of 1");
  EXPECT_EQ(device_text(facts.devices[1]), "Beta, 0.5 GiB, compute capability 8.6");
  const auto json = cuda_json(facts);
  EXPECT_EQ(json["devices"][0]["reads_memory_of"].dump(), "[1]");
  EXPECT_EQ(json["devices"][1]["memory_bytes"], 512LL << 20);
  EXPECT_EQ(json["nccl"], "no");
  EXPECT_FALSE(json.contains("why_no_devices"));
}

TEST(Env, WarnsOfDevicesThatNothingUses) {
  CudaFacts facts = facts_of_two_devices();
  EXPECT_EQ(cuda_warning(facts), "") << "the driver and LibTorch are of CUDA 12";
  facts.driver = "12.8";
  facts.runtime = "13.2";
  EXPECT_TRUE(says(cuda_warning(facts), "the driver supports CUDA 12.8, but LibTorch needs 13.2"))
      << cuda_warning(facts);
  facts.has_torch_cuda = false;
  EXPECT_TRUE(says(cuda_warning(facts), "2 CUDA devices, but this LibTorch was built without CUDA"))
      << cuda_warning(facts);
  facts.devices.clear();
  EXPECT_EQ(cuda_warning(facts), "");
}

}  // namespace
}  // namespace lockstep
