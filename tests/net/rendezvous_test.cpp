#include "lockstep/net/rendezvous.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
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
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using testing::ChildProcess;
using testing::error_of;
using testing::kSecret;
using testing::patience;
using testing::ReservedPort;
using testing::ScopedVariable;

RendezvousOptions options_for(const std::string& init_method, int rank, int world_size) {
  RendezvousOptions options;
  options.init_method = init_method;
  options.rank = rank;
  options.world_size = world_size;
  options.timeout = std::chrono::seconds(60);
  return options;
}

// Each rank sets its key, sees the keys of all others, and leaves.
void exchange(const Membership& membership) {
  membership.store->set("from " + std::to_string(membership.rank), "hello");
  for (int rank = 0; rank < membership.world_size; ++rank) {
    EXPECT_EQ(membership.store->get("from " + std::to_string(rank), patience()), "hello");
  }
  EXPECT_TRUE(membership.store->lost_ranks().empty());
  membership.store->finish(patience());
}

// Ranks as threads, with what each returned or threw.
struct Outcome {
  Membership membership;
  std::string error;
};
std::vector<Outcome> meet(const std::vector<RendezvousOptions>& all, bool exchange_after = true) {
  std::vector<Outcome> outcomes(all.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < all.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        outcomes[i].membership = rendezvous(all[i]);
        if (exchange_after) exchange(outcomes[i].membership);
      } catch (const Error& error) {
        outcomes[i].error = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

std::vector<RendezvousOptions> all_ranks(const std::string& init_method, int world_size) {
  std::vector<RendezvousOptions> all;
  for (int rank = 0; rank < world_size; ++rank) all.push_back(options_for(init_method, rank, world_size));
  return all;
}

void expect_complete(const std::vector<Outcome>& outcomes) {
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    EXPECT_EQ(outcomes[i].error, "");
    const Membership& membership = outcomes[i].membership;
    EXPECT_EQ(membership.rank, static_cast<int>(i));
    ASSERT_EQ(membership.peers.size(), outcomes.size());
    for (std::size_t k = 0; k < outcomes.size(); ++k) {
      EXPECT_EQ(membership.peers[k].global_rank, static_cast<int>(k));
      EXPECT_EQ(membership.peers[k].local_rank, static_cast<int>(k));
      EXPECT_EQ(membership.peers[k].host, host_name());
    }
    EXPECT_TRUE(membership.on_one_host());
  }
}

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

std::vector<std::string> rank_arguments(const std::string& init_method, const std::string& rank,
                                        const std::string& world_size, const std::string& timeout_ms = "60000") {
  return {init_method, rank, world_size, timeout_ms};
}

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

TEST(RendezvousTest, RanksMeetAtAFileOneJobAfterTheOther) {
  const TemporaryFolder folder;
  const std::string path = folder / "meeting";
  for (int job = 0; job < 3; ++job) {
    expect_complete(meet(all_ranks("file://" + path, 3)));
    EXPECT_FALSE(std::filesystem::exists(path));
  }
}

TEST(RendezvousTest, TheFileIsForThisUserAlone) {
  const TemporaryFolder folder;
  const std::string path = folder / "meeting";
  std::ofstream(path).close();  // created before, and readable by others
  ::chmod(path.c_str(), 0644);
  const auto outcomes = meet(all_ranks("file://" + path, 2), false);
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  std::stringstream content;
  content << std::ifstream(path).rdbuf();
  EXPECT_NE(content.str().find("unix:" + path + ".socket"), std::string::npos) << content.str();
}

TEST(RendezvousTest, AFileThatACrashedJobLeftIsNoTrouble) {
  const TemporaryFolder folder;
  const std::string path = folder / "meeting";
  {
    ChildProcess rank_0("one_rank", {"file://" + path, "0", "2", "60000", "stay"});
    ASSERT_TRUE(testing::eventually([&] { return std::filesystem::exists(path); }));
    ASSERT_TRUE(testing::eventually([&] { return std::filesystem::file_size(path) > 0; }));
    rank_0.signal(SIGKILL);
    rank_0.wait();
  }
  ASSERT_TRUE(std::filesystem::exists(path + ".socket"));
  expect_complete(meet(all_ranks("file://" + path, 2)));
}

TEST(RendezvousTest, AFileThatPointsToAnothersStoreIsNoTrouble) {
  const TemporaryFolder folder;
  const std::string path = folder / "meeting";
  const StoreServer other(SocketAddress::tcp("127.0.0.1", 0), kSecret);  // uses the address of the crashed job's store
  std::ofstream(path) << "lockstep rendezvous 1\n" << other.address().text() << "\nwhat the crashed job's secret was\n";
  ::chmod(path.c_str(), 0600);
  std::thread rank_1([&] { exchange(rendezvous(options_for("file://" + path, 1, 2))); });
  exchange(rendezvous(options_for("file://" + path, 0, 2)));
  rank_1.join();
}

TEST(RendezvousTest, TwoProcessesOfRank0AtAFileAreNamedToBoth) {
  const TemporaryFolder folder;
  const std::string path = folder / "meeting";
  ChildProcess first("one_rank", rank_arguments("file://" + path, "0", "2"));
  ASSERT_TRUE(
      testing::eventually([&] { return std::filesystem::exists(path) && std::filesystem::file_size(path) > 0; }));
  const std::string text = error_of([&] { rendezvous(options_for("file://" + path, 0, 2)); });
  EXPECT_EQ(first.wait(), 1);
  for (const std::string& told : {text, first.output()}) {
    EXPECT_NE(told.find("two processes claim rank 0"), std::string::npos) << told;
    EXPECT_NE(told.find("process " + std::to_string(::getpid())), std::string::npos) << told;
  }
}

TEST(RendezvousTest, AFileWithoutRank0IsNamed) {
  const TemporaryFolder folder;
  RendezvousOptions options = options_for("file://" + folder.path() + "/meeting", 1, 2);
  options.timeout = milliseconds(100);
  const std::string text = error_of<TimeoutError>([&] { rendezvous(options); });
  EXPECT_NE(text.find(folder / "meeting"), std::string::npos) << text;
  options.init_method = "file:///no/such/folder/meeting";
  options.rank = 0;
  EXPECT_NE(error_of([&] { rendezvous(options); }).find("/no/such/folder"), std::string::npos);
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
