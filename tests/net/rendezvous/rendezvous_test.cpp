#include "lockstep/net/rendezvous.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/processor/topology.h"
#include "lockstep/net/environment/env_address.h"
#include "lockstep/net/server/store_server.h"
#include "lockstep/net/sockets/stale_sockets.h"
#include "lockstep/net/store/store_client.h"
#include "tests/net/child_process.h"
#include "tests/net/net_fixtures.h"
#include "tests/net/rendezvous/rendezvous_ranks.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using testing::all_ranks;
using testing::ChildProcess;
using testing::exchange;
using testing::expect_complete;
using testing::kSecret;
using testing::meet;
using testing::options_for;
using testing::Outcome;
using testing::patience;
using testing::rank_arguments;
using testing::ReservedPort;
using testing::ScopedVariable;

// One rank in a separate process: INIT_METHOD RANK WORLD_SIZE TIMEOUT_MS [stay].
int one_rank(const std::vector<std::string>& arguments) {
  RendezvousOptions options;
  options.init_method = arguments.at(0);
  if (arguments.at(1) != "-") options.rank = std::stoi(arguments.at(1));
  if (arguments.at(2) != "-") options.world_size = std::stoi(arguments.at(2));
  options.timeout = milliseconds(std::stoll(arguments.at(3)));
  options.on_awaiting = [](const std::string& line) { std::cout << line << std::endl; };
  try {
    const Membership membership = rendezvous(options);
    std::cout << membership.where() << std::endl;
    for (const Peer& peer : membership.peers)
      std::cout << "local " << peer.local_rank << " pid " << peer.pid << std::endl;
    exchange(membership);
    if (arguments.size() > 4) ::pause();
    return 0;
  } catch (const Error& error) {
    std::cout << error.what() << std::endl;
    return 1;
  }
}
const testing::RegisterChildRole kOneRank("one_rank", one_rank);

TEST(RendezvousTest, RanksMeetAtATcpAddressOneJobAfterTheOther) {
  const ReservedPort port;
  for (int job = 0; job < 3; ++job) expect_complete(meet(all_ranks("tcp://127.0.0.1:" + port.text(), 4)));
}

TEST(RendezvousTest, RankAndWorldSizeMayStandInTheMethod) {
  const ReservedPort port;
  std::vector<RendezvousOptions> all(2);
  for (int rank = 0; rank < 2; ++rank) {
    all[static_cast<std::size_t>(rank)].init_method =
        "tcp://127.0.0.1:" + port.text() + "?rank=" + std::to_string(rank) + "&world_size=2";
  }
  expect_complete(meet(all));
}

TEST(RendezvousTest, RanksMeetOverIpv6) {
  if (!testing::has_ipv6()) GTEST_SKIP() << "this host has no IPv6";
  const ReservedPort port;  // for IPv4; the IPv6 port is very likely free as well
  expect_complete(meet(all_ranks("tcp://[::1]:" + port.text(), 2)));
}

TEST(RendezvousTest, AWorldOfOneNeedsNobody) {
  const Membership membership = rendezvous(options_for("tcp://127.0.0.1:1", 0, 1));
  EXPECT_EQ(membership.world_size, 1);
  EXPECT_EQ(membership.self().pid, ::getpid());
  exchange(membership);
}

TEST(RendezvousTest, ProcessesMeetByTheEnvironmentAndSayThatTheyWait) {
  const ReservedPort port;
  std::vector<std::unique_ptr<ChildProcess>> children;
  for (int rank = 0; rank < 3; ++rank) {
    children.push_back(
        std::make_unique<ChildProcess>("one_rank", rank_arguments("env://", "-", "-"),
                                       std::map<std::string, std::string>{{"RANK", std::to_string(rank)},
                                                                          {"WORLD_SIZE", "3"},
                                                                          {"MASTER_ADDR", "127.0.0.1"},
                                                                          {"MASTER_PORT", port.text()},
                                                                          {"LOCKSTEP_SECRET", kSecret}}));
  }
  std::string pids;
  for (const auto& child : children)
    pids += "local " + std::to_string(&child - children.data()) + " pid " + std::to_string(child->pid()) + "\n";
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(children[rank]->wait(), 0) << children[rank]->output();
    EXPECT_EQ(children[rank]->output(),
              "Awaiting all nodes to join.\nrank " + std::to_string(rank) + " of 3 on " + host_name() + "\n" + pids);
  }
}

// Another server holds the port all the time, as torchrun's agent does, so no rank can have used it.
TEST(RendezvousTest, RanksOfOneHostMeetOverAUnixSocketWithoutAnyPort) {
  const ReservedPort port;
  port.listen();
  const TemporaryFolder folder;
  std::vector<std::unique_ptr<ChildProcess>> children;
  for (int rank = 0; rank < 2; ++rank) {
    children.push_back(
        std::make_unique<ChildProcess>("one_rank", rank_arguments("env://", "-", "-"),
                                       std::map<std::string, std::string>{{"RANK", std::to_string(rank)},
                                                                          {"LOCAL_RANK", std::to_string(rank)},
                                                                          {"WORLD_SIZE", "2"},
                                                                          {"LOCAL_WORLD_SIZE", "2"},
                                                                          {"MASTER_ADDR", "127.0.0.1"},
                                                                          {"MASTER_PORT", port.text()},
                                                                          {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                                                          {"XDG_RUNTIME_DIR", folder.path()}}));
  }
  for (const auto& child : children) EXPECT_EQ(child->wait(), 0) << child->output();
  struct stat status {};
  ASSERT_EQ(::stat((folder / "lockstep").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
  EXPECT_TRUE(std::filesystem::is_empty(folder / "lockstep"));
}

// Killed jobs leave their sockets: those without a server are removed when the next job starts.
TEST(RendezvousTest, SocketsOfDeadJobsAreRemovedAndThoseOfOthersStay) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "lockstep");
  std::filesystem::permissions(folder / "lockstep", std::filesystem::perms::owner_all);
  const std::string dead = folder / ("lockstep/" + unique_socket_name({"dead"}));
  const std::string alive = folder / ("lockstep/" + unique_socket_name({"alive"}));
  const std::string foreign = folder / "lockstep/of-another-program.socket";
  // Served on another host that shares the folder: from here it looks dead.
  const std::string mark = kernel_mark();
  std::string elsewhere = unique_socket_name({"dead"});
  elsewhere = folder / ("lockstep/" + elsewhere.replace(0, mark.size(), mark == "01234567" ? "12345678" : "01234567"));
  for (const std::string& path : {dead, foreign, elsewhere}) {
    StoreServer server(SocketAddress::unix_socket(path), kSecret);
    std::filesystem::rename(path, path + ".kept");  // a server without its file cannot remove it, as if killed
  }
  for (const std::string& path : {dead, foreign, elsewhere}) std::filesystem::rename(path + ".kept", path);
  const StoreServer other_job(SocketAddress::unix_socket(alive), kSecret);
  const std::string own = folder / ("lockstep/" + unique_socket_name({"own"}));
  const StoreServer server(SocketAddress::unix_socket(own), kSecret);
  EXPECT_FALSE(std::filesystem::exists(dead));
  EXPECT_TRUE(std::filesystem::exists(alive));
  EXPECT_TRUE(std::filesystem::exists(foreign));
  EXPECT_TRUE(std::filesystem::exists(elsewhere));
  EXPECT_TRUE(std::filesystem::exists(own));
}

TEST(RendezvousTest, BesideAnAgentsStoreTheNextPortIsUsed) {
  std::unique_ptr<ReservedPort> agents;
  std::unique_ptr<ReservedPort> next;
  do {
    agents = std::make_unique<ReservedPort>();
    next = std::make_unique<ReservedPort>(static_cast<std::uint16_t>(agents->port() + 1));
  } while (!next->bound());
  agents->listen();
  std::vector<std::unique_ptr<ChildProcess>> children;
  for (int rank = 0; rank < 2; ++rank) {
    children.push_back(
        std::make_unique<ChildProcess>("one_rank", rank_arguments("env://", "-", "-"),
                                       std::map<std::string, std::string>{{"RANK", std::to_string(rank)},
                                                                          {"LOCAL_RANK", "0"},
                                                                          {"WORLD_SIZE", "2"},
                                                                          {"LOCAL_WORLD_SIZE", "1"},
                                                                          {"MASTER_ADDR", "127.0.0.1"},
                                                                          {"MASTER_PORT", agents->text()},
                                                                          {"LOCKSTEP_LOG_LEVEL", "error"},
                                                                          {"TORCHELASTIC_USE_AGENT_STORE", "True"}}));
  }
  for (const auto& child : children) {
    EXPECT_EQ(child->wait(), 0) << child->output();
    // Both set LOCAL_RANK=0 and are on one host; they are distinguished nevertheless.
    EXPECT_NE(child->output().find("local 1 pid"), std::string::npos) << child->output();
  }
}

TEST(RendezvousTest, TheLaunchersStoreServesGroupsInTurnAndGenerations) {
  const TemporaryFolder folder;
  StoreServer server(SocketAddress::unix_socket(folder / "store"), kSecret);
  const ScopedVariable store("LOCKSTEP_STORE", server.address().text());
  const ScopedVariable secret("LOCKSTEP_SECRET", kSecret);
  // `exchange` fails if a later group sees keys of an earlier one, because its gets would then not wait.
  for (int round = 0; round < 3; ++round) expect_complete(meet(all_ranks("env://", 2)));
  const ScopedVariable restarted("TORCHELASTIC_RESTART_COUNT", "1");
  const auto outcomes = meet(all_ranks("env://", 2), false);
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.membership.store->try_get("from 0"), std::nullopt);
  }
  StoreClient observer(server.address(), kSecret, patience());
  outcomes[0].membership.store->set("key", "");
  EXPECT_EQ(observer.try_get("g1.r0/default/key"), "");
  EXPECT_EQ(observer.try_get("g0.r2/default/from 1"), "hello");
}

TEST(RendezvousTest, Rank0StaysUntilTheOthersAreDone) {
  const ReservedPort port;
  const std::string method = "tcp://127.0.0.1:" + port.text();
  std::string result;
  std::thread rank_1([&] {
    const Membership membership = rendezvous(options_for(method, 1, 2));
    membership.store->get("rank 0 is about to finish", patience());
    for (int i = 0; i < 200; ++i) membership.store->add("count", 1);
    result = membership.store->get("count", patience());
    membership.store->finish(patience());
  });
  {
    const Membership membership = rendezvous(options_for(method, 0, 2));
    membership.store->set("rank 0 is about to finish", "");
    membership.store->finish(patience());
  }
  rank_1.join();
  EXPECT_EQ(result, "200");
}

TEST(RendezvousTest, AKilledRankIsLostToTheOthers) {
  const ReservedPort port;
  const std::string method = "tcp://127.0.0.1:" + port.text();
  ChildProcess killed("one_rank", rank_arguments(method, "1", "2"));
  const Membership membership = rendezvous(options_for(method, 0, 2));
  killed.signal(SIGKILL);  // it waits for a key of this rank
  ASSERT_TRUE(testing::eventually([&] { return !membership.store->lost_ranks().empty(); }));
  EXPECT_EQ(membership.store->lost_ranks()[0].rank, 1);
  membership.store->finish(patience());  // all other ranks are gone, so there is no wait
}

}  // namespace
}  // namespace lockstep
