// Tests `lockstep run --nnodes MIN:MAX` on simulated hosts whose links go down silently.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/e2e/launch.h"
#include "tools/hosts/network_hosts.h"

namespace lockstep {
namespace {

using Program = std::unique_ptr<RunningProgram>;

class ElasticHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = NetworkHosts::why_not()) GTEST_SKIP() << *reason;
  }
  Program start(const NetworkHosts& hosts, int host, const Words& more = {}) const {
    Words flags{"--nnodes=1:3", "--rdzv-endpoint=" + hosts.address(0),
                "--rdzv-conf=last_call_timeout=0.2,keep_alive_interval=1"};
    flags.insert(flags.end(), more.begin(), more.end());
    return std::make_unique<RunningProgram>(hosts.on(host, launch(flags, {kBin + "/launch_rank", "stay"})), job_);
  }
  // One launcher on each of the hosts, by host; all their ranks train together.
  std::vector<Program> start_all(const NetworkHosts& hosts) const {
    std::vector<Program> all;
    for (int host = 0; host < hosts.count(); ++host) {
      all.push_back(start(hosts, host));
      expect(all.back(), "joined " + std::to_string(host + 1) + ",");
    }
    return all;
  }
  static void expect(const Program& host, const std::string& text) {
    EXPECT_TRUE(host->wait_for(text, soon())) << text << " did not come:\n" << host->out() << host->err();
  }
  // The job continues on the other hosts: a rank that was asked to end here could write what those write, too.
  static void expect_not_asked(const ProgramEnd& host) {
    const std::string last = host.out.substr(host.out.rfind("joined "));
    EXPECT_FALSE(has(last, "was asked to end")) << host.out << host.err;
  }

  const Changes job_{{"LOCKSTEP_SECRET", "5ec2e7000000000000000000000000c1"}};
};
// Each waits for seconds of silence. Who continues without whom is in tests/launch/coordinator_{silence,takeover}_test.
using ElasticHostsLong = ElasticHosts;

TEST_F(ElasticHostsLong, GoOnWithoutOneWhoseLinkIsDown) {
  const NetworkHosts hosts(3, "1gbit");
  const std::vector<Program> all = start_all(hosts);
  const Program &a = all[0], &b = all[1], &c = all[2];
  expect(a, "host host-c joined");
  hosts.set_link(2, false);
  expect(a, "host host-c was lost: ");
  expect(a, "the ranks start: 2 on 2 hosts (host-a, host-b), restarts so far: 0 of 0");
  expect(b, "rank 1: joined 2, restarts 0, node 1 of 2");
  // The host that was cut off ends its ranks and reports why.
  const ProgramEnd end = c->wait(soon());
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(has(end.err, "host host-a, which serves the rendezvous, is lost: ")) << end.err;
  expect_not_asked(end);
  // When its link is back, it may join again.
  hosts.set_link(2, true);
  const Program again = start(hosts, 2);
  expect(again, "rank 2: joined 3, restarts 0, node 2 of 3");
}

TEST_F(ElasticHostsLong, TakeOneBackThatWasSilent) {
  const NetworkHosts hosts(2, "1gbit");
  const std::vector<Program> all = start_all(hosts);
  const Program &a = all[0], &b = all[1];
  hosts.set_link(1, false);
  expect(a, "host host-b was lost: ");
  hosts.set_link(1, true);
  expect(b, "host host-b was taken for lost: ");
  expect(b, "; this host joins again");
  expect(b, "the ranks start: 2 on 2 hosts (host-a, host-b)");
}

// Seconds: hosts count as lost only after seconds of silence.
TEST_F(ElasticHosts, TakeOverIfTheyAreMoreThanThePartOfTheServingOne) {
  const NetworkHosts hosts(3, "1gbit");
  const std::vector<Program> all = start_all(hosts);
  const Program &a = all[0], &b = all[1], &c = all[2];
  hosts.set_link(0, false);
  expect(b, "host host-a, which serves the rendezvous, is lost: ");
  expect(b, "; host host-b serves it from now on, at tcp:" + hosts.address(1));
  expect(b, "rank 0: joined 2, restarts 0, node 0 of 2");
  expect(c, "rank 1: joined 2, restarts 0, node 1 of 2");
  const ProgramEnd end = a->wait(soon());
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(has(end.err, "so many hosts are silent that they may continue without this one")) << end.err;
  expect_not_asked(end);
}

TEST_F(ElasticHostsLong, EndWhenTheServingOneIsCutOff) {
  const NetworkHosts hosts(2, "1gbit");
  const std::vector<Program> all = start_all(hosts);
  const Program &a = all[0], &b = all[1];
  hosts.set_link(0, false);
  const ProgramEnd end = b->wait(soon());
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(has(end.err, "host host-a, which serves the rendezvous, is lost: ")) << end.err;
  expect_not_asked(end);
  expect(a, "the ranks start: 1 on 1 host (host-a)");
}

}  // namespace
}  // namespace lockstep
