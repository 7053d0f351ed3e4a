// Tests lockstep::on_rank_change on hosts made of network namespaces, whose links go down: the others notice it only by
// silence.
#include <signal.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/e2e/launch.h"
#include "tools/hosts/network_hosts.h"

namespace lockstep {
namespace {

constexpr int kHosts = 3;

class SurvivingLinks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = NetworkHosts::why_not()) GTEST_SKIP() << *reason;
    hosts_ = std::make_unique<NetworkHosts>(kHosts, "1gbit");
  }

  // Host 0 serves. `keep_alive_s` is the silence after which a host is lost.
  void start(const std::string& keep_alive_s, const Words& events) {
    for (int host = 0; host < kHosts; ++host) {
      Words program{kBin + "/elastic_rank", "3000"};
      program.insert(program.end(), events.begin(), events.end());
      const Words flags{"--nnodes=1:3", "--max-restarts=3", "--rdzv-backend=c10d",
                        "--rdzv-endpoint=" + hosts_->address(0) + ":29400",
                        "--rdzv-conf=keep_alive_max_attempt=1,keep_alive_interval=" + keep_alive_s};
      launchers_.push_back(std::make_unique<RunningProgram>(hosts_->on(host, launch(flags, program)), job_));
    }
    expect(0, "in step 20");
  }
  void expect(std::size_t host, const std::string& text) {
    RunningProgram& launcher = *launchers_[host];
    EXPECT_TRUE(launcher.wait_for(text, soon())) << text << " did not come:\n" << launcher.out() << launcher.err();
  }
  // The rank of a host.
  pid_t rank_of(std::size_t host) const {
    std::istringstream pids(
        run_program({"pgrep", "-P", std::to_string(launchers_[host]->pid()), "-x", "elastic_rank"}).out);
    pid_t pid = 0;
    pids >> pid;
    return pid;
  }
  // Hosts 1 and 2 trained to the end, and started no ranks again.
  void expect_survived() {
    std::string result;
    for (std::size_t host = 1; host < kHosts; ++host) {
      const ProgramEnd end = launchers_[host]->wait(Deadline::after(std::chrono::seconds(120)));
      EXPECT_EQ(end.code, 0) << end.out << end.err;
      EXPECT_FALSE(has(end.err, "the ranks start: ")) << end.err;
      if (has(end.out, "bits ")) result = end.out.substr(end.out.find("bits "), 21);
    }
    const std::string alone = run({}, {kBin + "/elastic_rank", "3000"}, {{"OMP_NUM_THREADS", "1"}}).out;
    EXPECT_TRUE(has(alone, result) && !result.empty()) << result << " is not in " << alone;
  }

  std::unique_ptr<NetworkHosts> hosts_;
  std::vector<std::unique_ptr<RunningProgram>> launchers_;
  const Changes job_{{"LOCKSTEP_SECRET", "5ec2e7000000000000000000000000d1"}, {"OMP_NUM_THREADS", "1"}};
};
using SurvivingLinksLong = SurvivingLinks;

// It has given the others up, and they have not given it up yet. What it sent to them arrives now.
TEST_F(SurvivingLinks, GoOnIfThatOfTheServingHostIsUpAgainWhileItEnds) {
  start("3", {"0", "20", "say"});
  hosts_->set_link(0, false);
  expect(0, "so many hosts are silent that they may continue without this one");
  hosts_->set_link(0, true);
  EXPECT_EQ(launchers_[0]->wait(soon()).code, 1) << launchers_[0]->err();
  expect_survived();
}

// A process that was started just before looks for the store while nobody knows yet that it is lost.
TEST_F(SurvivingLinksLong, LetAProcessInThatStartsWhileTheServingHostIsSilent) {
  start("12", {"0", "20", "say", "2", "6", "slow"});
  const pid_t lost = rank_of(1);
  ::kill(lost, SIGKILL);
  pid_t successor = lost;
  while (successor == lost || successor == 0) successor = rank_of(1);
  hosts_->set_link(0, false);
  expect(1, "has joined in the place of rank ");
  hosts_->set_link(0, true);
  expect_survived();
}

}  // namespace
}  // namespace lockstep
