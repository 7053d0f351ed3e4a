// Tests one job on two simulated hosts: the launcher's flags for several nodes, and PyTorch's variables set by hand.
#include <gtest/gtest.h>

#include "tests/e2e/launch.h"
#include "tools/hosts/network_hosts.h"

namespace lockstep {
namespace {

class Hosts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = NetworkHosts::why_not()) GTEST_SKIP() << *reason;
    const auto made =
        run_program({kBin + "/lockstep", "data", "digits", "--output", digits(), "--train", "400", "--test", "100"});
    ASSERT_EQ(made.code, 0) << made.err;
  }
  std::string digits() const { return folder_ / "digits"; }
  Words mnist() const { return {kBin + "/ddp_mnist", "--data", digits(), "--batch_size", "50", "--epochs", "1"}; }

  const TemporaryFolder folder_;
  const Changes job_{{"LOCKSTEP_SECRET", "5ec2e7000000000000000000000000d1"},
                     {"LOCKSTEP_LOG_LEVEL", "info"},
                     {"OMP_NUM_THREADS", "1"},
                     {"OPENBLAS_NUM_THREADS", "1"}};
};
using HostsLong = Hosts;

// Seconds: two launchers start four ranks, which load LibTorch and train.
TEST_F(Hosts, TheLauncherTrainsOnTwoOfThem) {
  const NetworkHosts hosts(2, "1gbit");
  const auto node = [&](int rank) {
    return hosts.on(rank, launch({"--nnodes", "2", "--node-rank", std::to_string(rank), "--nproc-per-node", "2",
                                  "--master-addr", hosts.address(0)},
                                 mnist()));
  };
  RunningProgram second(node(1), job_);
  RunningProgram first(node(0), job_);
  const ProgramEnd end0 = first.wait(soon());
  const ProgramEnd end1 = second.wait(soon());
  EXPECT_EQ(end0.code, 0) << end0.err;
  EXPECT_EQ(end1.code, 0) << end1.err;
  EXPECT_TRUE(has(end0.out, "Accuracy on the test images:")) << end0.out;
  EXPECT_TRUE(has(end0.err, "process group of 4 ranks over engine hierarchical")) << end0.err;
  EXPECT_TRUE(has(end0.err, "tcp on host-a: interface eth0, address 10.77.0.1")) << end0.err;
  EXPECT_TRUE(has(end1.err, "tcp on host-b: interface eth0, address 10.77.0.2")) << end1.err;
}

TEST_F(HostsLong, VariablesByHandDo) {
  const NetworkHosts hosts(2, "100mbit");
  const auto rank = [&](int number) {
    Changes changes = job_;
    changes["RANK"] = std::to_string(number);
    changes["WORLD_SIZE"] = "2";
    changes["MASTER_ADDR"] = hosts.address(0);
    changes["MASTER_PORT"] = "29500";
    return std::make_unique<RunningProgram>(hosts.on(number, mnist()), changes);
  };
  const auto second = rank(1);
  const auto first = rank(0);
  const ProgramEnd end0 = first->wait(soon());
  const ProgramEnd end1 = second->wait(soon());
  EXPECT_EQ(end0.code, 0) << end0.err;
  EXPECT_EQ(end1.code, 0) << end1.err;
  EXPECT_TRUE(has(end0.err, "process group of 2 ranks over engine tcp")) << end0.err;
}

}  // namespace
}  // namespace lockstep
