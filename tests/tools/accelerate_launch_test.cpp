// The origin of a value of `lockstep launch`: flag, environment, file, or default.
#include "tools/accelerate/accelerate_launch.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "lockstep/base/error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

class AccelerateLaunching : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"HF_HOME", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES",
                             "ACCELERATE_MIXED_PRECISION", "ACCELERATE_USE_CPU", "PET_MAX_RESTARTS"}) {
      ::unsetenv(name);
    }
    ::setenv("HF_HOME", folder_.path().c_str(), 1);
  }
  void TearDown() override { SetUp(); }

  static AccelerateLaunch resolve(std::vector<std::string> words) {
    AccelerateLaunchFlags flags;
    CLI::App app;
    add_accelerate_launch_flags(app, flags);
    words.push_back("./train");
    std::reverse(words.begin(), words.end());
    app.parse(words);
    return resolve_accelerate_launch(flags);
  }
  std::string file(const std::string& text) const {
    const std::string path = folder_.path() + "/two.yaml";
    std::ofstream(path) << text;
    return path;
  }
  static std::string value(const AccelerateLaunch& launch, const std::string& name) {
    return launch.setting(name).value + " by " + launch.setting(name).origin;
  }

  TemporaryFolder folder_;
};

TEST_F(AccelerateLaunching, AsksFlagThenEnvironmentThenFile) {
  const std::string path =
      file("distributed_type: MULTI_CPU\nnum_processes: 2\nmixed_precision: fp16\nuse_cpu: true\n");
  AccelerateLaunch launch = resolve({"--config-file", path});
  EXPECT_EQ(value(launch, "mixed_precision"), "fp16 by file");
  EXPECT_EQ(value(launch, "num_processes"), "2 by file");
  EXPECT_EQ(value(launch, "max_restarts"), "0 by default");
  for (const char* lacking : {"num_machines", "rdzv_backend", "same_network", "debug"}) {
    EXPECT_EQ(launch.setting(lacking).origin, "default") << lacking << " is not in the file";
  }
  EXPECT_EQ(value(launch, "cpu"), "true by file");
  EXPECT_EQ(launch.flags.nproc_per_node, "2");
  EXPECT_EQ(launch.environment.at("CUDA_VISIBLE_DEVICES"), "");
  EXPECT_EQ(launch.environment.at("ACCELERATE_MIXED_PRECISION"), "fp16");

  ::setenv("ACCELERATE_MIXED_PRECISION", "bf16", 1);
  launch = resolve({"--config-file", path, "--num-processes", "4"});
  EXPECT_EQ(value(launch, "mixed_precision"), "bf16 by environment (ACCELERATE_MIXED_PRECISION)");
  EXPECT_EQ(value(launch, "num_processes"), "4 by flag");

  launch = resolve({"--config-file", path, "--mixed-precision", "bfloat16"});
  EXPECT_EQ(value(launch, "mixed_precision"), "bf16 by flag");
  launch = resolve({"--config-file", path, "--mixed-precision", "no"});
  EXPECT_EQ(value(launch, "mixed_precision"), "no by flag");
}

TEST_F(AccelerateLaunching, TakesEveryValueOfTheFile) {
  // Accelerate's launcher drops these three, because their flags have defaults.
  const std::string path = file(
      "distributed_type: MULTI_GPU\nnum_processes: 4\nnum_machines: 2\nmachine_rank: 1\nmain_process_ip: 10.0.0.1\n"
      "main_process_port: 1234\nrdzv_backend: c10d\nsame_network: false\nenable_cpu_affinity: true\ngpu_ids: 0,3\n");
  const AccelerateLaunch launch = resolve({"--config-file", path});
  EXPECT_EQ(launch.flags.rdzv_backend, "c10d");
  EXPECT_EQ(value(launch, "same_network"), "false by file");
  EXPECT_EQ(launch.flags.cpu_affinity, "split");
  EXPECT_EQ(launch.flags.nnodes, "2");
  EXPECT_EQ(launch.flags.nproc_per_node, "2");
  EXPECT_EQ(launch.flags.node_rank, "1");
  EXPECT_EQ(launch.flags.master_addr, "10.0.0.1");
  EXPECT_EQ(launch.flags.master_port, "1234");
  EXPECT_EQ(launch.environment.at("CUDA_VISIBLE_DEVICES"), "0,3");
}

TEST_F(AccelerateLaunching, WarnsOfGpusThatAreNotThere) {
  const std::string path = file("distributed_type: MULTI_GPU\nnum_processes: 2\n");
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  const std::string warning = resolve({"--config-file", path}).warning;
  EXPECT_NE(warning.find(path + " says distributed_type: MULTI_GPU, but this host shows no GPU"), std::string::npos);
  EXPECT_EQ(resolve({"--config-file", path, "--cpu"}).warning, "");
  EXPECT_EQ(resolve({"--config-file", file("distributed_type: MULTI_CPU\nnum_processes: 2\n")}).warning, "");
}

// accelerate hands it on by the same variables.
TEST_F(AccelerateLaunching, TellsProgramsWhatFsdpIsAskedFor) {
  const std::string files = std::string(LOCKSTEP_SOURCE_DIR) + "/tests/tools/accelerate_files/";
  const auto of = [&](const char* name) { return resolve({"--config-file", files + name}).environment; };
  const auto hybrid = of("1.15.0-fsdp1-hybrid.yaml");
  EXPECT_EQ(hybrid.at("ACCELERATE_USE_FSDP"), "true");
  EXPECT_EQ(hybrid.at("FSDP_VERSION"), "1");
  EXPECT_EQ(hybrid.at("FSDP_RESHARD_AFTER_FORWARD"), "HYBRID_SHARD");
  EXPECT_EQ(hybrid.at("FSDP_TRANSFORMER_CLS_TO_WRAP"), "BertLayer");
  EXPECT_EQ(hybrid.at("FSDP_STATE_DICT_TYPE"), "SHARDED_STATE_DICT");
  const auto full = of("1.15.0-fsdp2.yaml");
  EXPECT_EQ(full.at("FSDP_RESHARD_AFTER_FORWARD"), "true");
  EXPECT_EQ(full.count("FSDP_SHARDING_STRATEGY"), 0U);
  EXPECT_EQ(of("1.15.0-fsdp2-mesh.yaml").at("FSDP_SHARDING_STRATEGY"), "HYBRID_SHARD");
  EXPECT_EQ(of("1.15.0-cpu4-bf16.yaml").count("ACCELERATE_USE_FSDP"), 0U);
  const auto refusal = [&](const std::string& replicas, const std::string& shards,
                           const std::string& machines = "2") -> std::string {
    const std::string path = file("distributed_type: FSDP\nnum_processes: 4\nnum_machines: " + machines +
                                  "\nparallelism_config:\n  parallelism_config_dp_replicate_size: " + replicas +
                                  "\n  parallelism_config_dp_shard_size: " + shards + "\n");
    try {
      resolve({"--config-file", path});
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal("1", "4"), "accepted");
  EXPECT_NE(refusal("4", "1").find("a replica is all ranks of a machine"), std::string::npos);
  EXPECT_NE(refusal("2", "4").find("there are 4 processes"), std::string::npos);
  // 4 times 2^30 + 1 is 4 in an int.
  EXPECT_NE(refusal("4", "1073741825", "4").find("there are 4 processes"), std::string::npos);
}

TEST_F(AccelerateLaunching, FindsTheDefaultFile) {
  const AccelerateLaunch none = resolve({"--cpu"});
  EXPECT_EQ(none.config_file, "");
  EXPECT_EQ(value(none, "num_processes"), "1 by no GPU was found: one process per machine");
  ASSERT_EQ(std::system(("mkdir -p " + folder_.path() + "/accelerate").c_str()), 0);
  std::ofstream(folder_.path() + "/accelerate/default_config.yaml")
      << "distributed_type: MULTI_CPU\nnum_processes: 3\n";
  EXPECT_EQ(resolve({}).flags.nproc_per_node, "3");
}

TEST_F(AccelerateLaunching, NamesWhoGaveAValueThatDoesNotFit) {
  const auto refusal = [&](const std::vector<std::string>& words) -> std::string {
    try {
      resolve(words);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_NE(refusal({"--num-processes", "3", "--num-machines", "2"}).find("--num-processes is '3' (from: flag)"),
            std::string::npos);
  EXPECT_NE(refusal({"--mixed-precision", "fp8"}).find("no, fp16 or bf16"), std::string::npos);
  EXPECT_NE(refusal({"--num-processes", "many"}).find("--num-processes"), std::string::npos);
  EXPECT_NE(refusal({"--config-file", folder_.path() + "/none.yaml"}).find("none.yaml"), std::string::npos);
  ::setenv("ACCELERATE_MIXED_PRECISION", "double", 1);
  EXPECT_NE(refusal({}).find("environment (ACCELERATE_MIXED_PRECISION)"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
