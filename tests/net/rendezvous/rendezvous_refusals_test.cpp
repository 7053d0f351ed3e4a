// Tests what a rendezvous refuses, and what its errors name.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/processor/topology.h"
#include "lockstep/net/rendezvous.h"
#include "tests/net/child_process.h"
#include "tests/net/net_fixtures.h"
#include "tests/net/rendezvous/rendezvous_ranks.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using testing::all_ranks;
using testing::ChildProcess;
using testing::error_of;
using testing::exchange;
using testing::kSecret;
using testing::meet;
using testing::options_for;
using testing::Outcome;
using testing::rank_arguments;
using testing::ReservedPort;
using testing::ScopedVariable;

TEST(RendezvousTest, AMissingVariableIsNamed) {
  const std::map<std::string, std::string> complete{
      {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}};
  for (const auto& [missing, unused] : complete) {
    std::vector<std::unique_ptr<ScopedVariable>> variables;
    for (const auto& [name, value] : complete) {
      if (name != missing) variables.push_back(std::make_unique<ScopedVariable>(name, value));
    }
    const std::string text = error_of([] { rendezvous({}); });
    EXPECT_NE(text.find(missing + " is not set"), std::string::npos) << text;
  }
}

TEST(RendezvousTest, ARankThatDoesNotFitIsRefusedBeforeAnythingIsOpened) {
  for (const auto& [rank, world_size] : {std::pair(2, 2), std::pair(-1, 2), std::pair(0, 0)}) {
    const std::string text =
        error_of([&, r = rank, w = world_size] { rendezvous(options_for("tcp://127.0.0.1:1", r, w)); });
    EXPECT_NE(text.find("does not fit"), std::string::npos) << text;
  }
}

TEST(RendezvousTest, RanksThatDoNotComeAreNamedOnAllThatDid) {
  const ReservedPort port;
  auto all = all_ranks("tcp://127.0.0.1:" + port.text(), 4);
  all.erase(all.begin() + 2);
  all[0].join_timeout = milliseconds(4000);
  for (const Outcome& outcome : meet(all)) {
    EXPECT_NE(outcome.error.find("rank 2 did not arrive: 3 of 4 joined"), std::string::npos) << outcome.error;
  }
}

TEST(RendezvousTest, WithoutRank0TheOthersNameTheAddress) {
  const ReservedPort port;
  RendezvousOptions options = options_for("tcp://127.0.0.1:" + port.text(), 1, 2);
  options.timeout = milliseconds(100);
  const std::string text = error_of<TimeoutError>([&] { rendezvous(options); });
  EXPECT_NE(text.find("127.0.0.1:" + port.text()), std::string::npos) << text;
  EXPECT_NE(text.find("rank 0"), std::string::npos) << text;
}

// Processes, because their numbers are in the message. All three must get it, in whatever order they arrived.
TEST(RendezvousTest, TwoProcessesOfOneRankAreNamedToAll) {
  for (const std::string twice : {"0", "1"}) {
    const ReservedPort port;
    const std::string method = "tcp://127.0.0.1:" + port.text();
    ChildProcess a("one_rank", rank_arguments(method, twice, "3"));
    ChildProcess b("one_rank", rank_arguments(method, twice, "3"));
    ChildProcess other("one_rank", rank_arguments(method, twice == "0" ? "1" : "0", "3"));
    const std::string pid_a = "process " + std::to_string(a.pid());
    const std::string pid_b = "process " + std::to_string(b.pid());
    for (ChildProcess* process : {&a, &b, &other}) {
      EXPECT_EQ(process->wait(), 1);
      const std::string& text = process->output();
      EXPECT_NE(text.find("two processes claim rank " + twice), std::string::npos) << text;
      EXPECT_NE(text.find(pid_a), std::string::npos) << text;
      EXPECT_NE(text.find(pid_b), std::string::npos) << text;
      EXPECT_NE(text.find(host_name()), std::string::npos) << text;
      EXPECT_NE(text.find("choose another MASTER_PORT"), std::string::npos) << text;
    }
  }
}

TEST(RendezvousTest, ASecondJobOnAPortIsToldToTakeAnother) {
  const ReservedPort port;
  const std::string method = "tcp://127.0.0.1:" + port.text();
  std::vector<Outcome> first = meet(all_ranks(method, 2), /*exchange_after=*/false);
  for (const Outcome& outcome : first) ASSERT_EQ(outcome.error, "");
  const std::string text = error_of([&] { rendezvous(options_for(method, 0, 2)); });
  EXPECT_NE(text.find("whose job is complete already"), std::string::npos) << text;
  EXPECT_NE(text.find("choose another MASTER_PORT"), std::string::npos) << text;
  std::thread other([&] { exchange(first[1].membership); });  // the first job is not affected
  exchange(first[0].membership);
  other.join();
}

TEST(RendezvousTest, DifferentWorldSizesAreNamedToAll) {
  const ReservedPort port;
  const std::string method = "tcp://127.0.0.1:" + port.text();
  for (const Outcome& outcome : meet({options_for(method, 0, 2), options_for(method, 1, 4)})) {
    EXPECT_NE(outcome.error.find("disagree on world_size"), std::string::npos) << outcome.error;
    EXPECT_NE(outcome.error.find("says 2"), std::string::npos) << outcome.error;
    EXPECT_NE(outcome.error.find("says 4"), std::string::npos) << outcome.error;
  }
}

TEST(RendezvousTest, ABusyPortIsNamed) {
  const ReservedPort port;
  port.listen();
  RendezvousOptions options = options_for("tcp://127.0.0.1:" + port.text(), 0, 2);
  options.join_timeout = milliseconds(500);  // the stranger at that address stays silent
  const std::string text = error_of([&] { rendezvous(options); });
  EXPECT_NE(text.find("cannot listen at tcp:127.0.0.1:" + port.text()), std::string::npos) << text;
}

TEST(RendezvousTest, AWrongSecretIsNamed) {
  const ReservedPort port;
  const std::string method = "tcp://127.0.0.1:" + port.text();
  ChildProcess rank_0("one_rank", rank_arguments(method, "0", "2"), {{"LOCKSTEP_SECRET", kSecret}});
  ChildProcess rank_1("one_rank", rank_arguments(method, "1", "2"), {{"LOCKSTEP_SECRET", kSecret + "0"}});
  EXPECT_EQ(rank_1.wait(), 1);
  EXPECT_NE(rank_1.output().find("LOCKSTEP_SECRET"), std::string::npos) << rank_1.output();
  EXPECT_EQ(rank_1.output().find(kSecret), std::string::npos) << rank_1.output();
}

TEST(RendezvousTest, AddressesOfOtherHostsNeedASecret) {
  const std::string text = error_of([] { rendezvous(options_for("tcp://0.0.0.0:29999", 0, 2)); });
  EXPECT_NE(text.find("LOCKSTEP_SECRET"), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep
