#include "lockstep/net/server/store_server.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/net/store/store_client.h"
#include "lockstep/net/store_errors.h"
#include "tests/net/net_fixtures.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using testing::error_of;
using testing::kSecret;
using testing::patience;

TEST(StoreServerTest, TheSocketFileIsForThisUserAloneAndGoesWithTheServer) {
  const TemporaryFolder folder;
  const std::string path = folder / "store";
  {
    const StoreServer server(SocketAddress::unix_socket(path), kSecret);
    struct stat status {};
    ASSERT_EQ(::lstat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600U);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(StoreServerTest, ASocketFileOfADeadServerIsReplacedAndALivingOneIsNot) {
  const TemporaryFolder folder;
  const std::string path = folder / "store";
  {
    const UniqueFd dead(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::strncpy(name.sun_path, path.c_str(), sizeof(name.sun_path) - 1);
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
  }
  ASSERT_TRUE(std::filesystem::exists(path));
  const StoreServer server(SocketAddress::unix_socket(path), kSecret);
  EXPECT_THROW(StoreServer(SocketAddress::unix_socket(path), kSecret), AddressInUseError);
  StoreClient(server.address(), kSecret, patience()).set("key", "");  // the first store is not affected
}

TEST(StoreServerTest, ABusyPortIsNamedWithAWayOut) {
  const testing::ReservedPort port;
  port.listen();
  const std::string text =
      error_of<AddressInUseError>([&] { StoreServer(SocketAddress::tcp("127.0.0.1", port.port()), kSecret); });
  EXPECT_NE(text.find("127.0.0.1:" + port.text()), std::string::npos) << text;
  EXPECT_NE(text.find("MASTER_PORT"), std::string::npos) << text;
}

TEST(StoreServerTest, ServersInTurnShareAPort) {
  const testing::ReservedPort port;
  const SocketAddress address = SocketAddress::tcp("127.0.0.1", port.port());
  for (int i = 0; i < 3; ++i) {
    const StoreServer server(address, kSecret);
    StoreClient client(address, kSecret, patience());
    EXPECT_EQ(client.add("count", 1), 1);
    // The server closes first, so its end of the connection remains in the kernel for a minute.
  }
}

TEST(StoreServerTest, ListensOnlyWhereItWasAsked) {
  const StoreServer server(SocketAddress::tcp("127.0.0.1", 0), kSecret);
  const Deadline soon = Deadline::after(milliseconds(100));
  EXPECT_THROW(StoreClient(SocketAddress::tcp("127.0.0.2", server.address().port), kSecret, soon), TimeoutError);
}

TEST(StoreServerTest, WithoutASecretOnlyThisHostMayReachIt) {
  const std::string text = error_of([] { StoreServer(SocketAddress::tcp("0.0.0.0", 0), ""); });
  EXPECT_NE(text.find("LOCKSTEP_SECRET"), std::string::npos) << text;
  const StoreServer server(SocketAddress::tcp("localhost", 0), "");
  StoreClient client(server.address(), "", patience());
  EXPECT_EQ(client.add("count", 1), 1);
  const std::string refused =
      error_of([] { StoreClient(SocketAddress::tcp("192.0.2.1", 29500), "", patience()); });  // RFC 5737: not assigned
  EXPECT_NE(refused.find("LOCKSTEP_SECRET"), std::string::npos) << refused;
}

TEST(StoreServerTest, UnknownHostsAndForeignAddressesAreNamed) {
  const std::string unknown = error_of([] { StoreServer(SocketAddress::tcp("no-such-host.invalid", 0), kSecret); });
  EXPECT_NE(unknown.find("no-such-host.invalid"), std::string::npos) << unknown;
  const std::string foreign = error_of([] { StoreServer(SocketAddress::tcp("192.0.2.1", 0), kSecret); });
  EXPECT_NE(foreign.find("MASTER_ADDR"), std::string::npos) << foreign;
  const std::string client = error_of<TimeoutError>(
      [] { StoreClient(SocketAddress::tcp("no-such-host.invalid", 1), kSecret, Deadline::after(milliseconds(100))); });
  EXPECT_NE(client.find("no-such-host.invalid"), std::string::npos) << client;
}

TEST(StoreServerTest, SocketPathsThatAreTooLongAreNamed) {
  const std::string path = "/tmp/" + std::string(200, 'p');
  const std::string text = error_of([&] { StoreServer(SocketAddress::unix_socket(path), kSecret); });
  EXPECT_NE(text.find("205 bytes"), std::string::npos) << text;
}

TEST(StoreClientTest, AClientThatComesFirstWaitsForTheServer) {
  const TemporaryFolder folder;
  const SocketAddress address = SocketAddress::unix_socket(folder / "store");
  std::thread early([&] { StoreClient(address, kSecret, patience()).set("key", "value"); });
  const StoreServer server(address, kSecret);
  early.join();
  EXPECT_EQ(StoreClient(address, kSecret, patience()).get("key", patience()), "value");
}

TEST(StoreClientTest, ARefusedConnectionIsNamedAtTheDeadline) {
  const testing::ReservedPort port;
  const std::string text = error_of<TimeoutError>([&] {
    StoreClientOptions options;
    options.where = "rank 1 of 2 on host-a";
    StoreClient(SocketAddress::tcp("127.0.0.1", port.port()), kSecret, Deadline::after(milliseconds(50)), options);
  });
  EXPECT_NE(text.find("127.0.0.1:" + port.text()), std::string::npos) << text;
  EXPECT_NE(text.find("refused"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 1 of 2 on host-a"), std::string::npos) << text;
}

TEST(StoreClientTest, LosingTheServerEndsWaitsAndCallsWithItsName) {
  for (const bool tcp : {false, true}) {
    const TemporaryFolder folder;
    auto server = std::make_unique<StoreServer>(
        tcp ? SocketAddress::tcp("127.0.0.1", 0) : SocketAddress::unix_socket(folder / "store"), kSecret);
    const std::string name = server->address().text();
    StoreClient client(server->address(), kSecret, patience());
    std::string text;
    std::thread waiter([&] { text = error_of<StoreLostError>([&] { client.get("never", patience()); }); });
    client.set("key", "");
    server.reset();
    waiter.join();
    EXPECT_NE(text.find(name), std::string::npos) << text;
    EXPECT_NE(error_of<StoreLostError>([&] { client.set("key", ""); }).find(name), std::string::npos);
    client.finish(patience());  // no error, although the server is gone
  }
}

TEST(StoreClientTest, AWaitDoesNotHoldUpOtherThreads) {
  const StoreServer server(SocketAddress::tcp("127.0.0.1", 0), kSecret);
  StoreClient client(server.address(), kSecret, patience());
  std::thread waiter([&] { EXPECT_EQ(client.get("late", patience()), "value"); });
  for (int i = 0; i < 100; ++i) client.add("count", 1);
  client.set("late", "value");
  waiter.join();
}

TEST(StoreClientTest, CallsAfterTheGoodbyeAreErrors) {
  const StoreServer server(SocketAddress::tcp("127.0.0.1", 0), kSecret);
  StoreClient client(server.address(), kSecret, patience());
  client.finish(patience());
  EXPECT_NE(error_of([&] { client.set("key", ""); }).find("has left"), std::string::npos);
  client.finish(patience());
}

TEST(StoreClientTest, AForkedChildMayNotUseItButMayDropIt) {
  const StoreServer server(SocketAddress::tcp("127.0.0.1", 0), kSecret);
  auto client = std::make_unique<StoreClient>(server.address(), kSecret, patience());
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 1;
    try {
      client->try_get("key");
    } catch (const Error& error) {
      code = std::string(error.what()).find("forked") != std::string::npos ? 0 : 2;
    }
    client.reset();
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  client->set("key", "value");  // the parent's client is not affected
  EXPECT_EQ(client->try_get("key"), "value");
}

TEST(StoreClientTest, ManyClientsWaitForManyKeys) {
  const StoreServer server(SocketAddress::tcp("127.0.0.1", 0), kSecret);
  constexpr int kClients = 32;
  std::vector<std::string> keys;
  for (int i = 0; i < kClients; ++i) keys.push_back("key " + std::to_string(i));
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      StoreClient client(server.address(), kSecret, patience());
      client.set(keys[static_cast<std::size_t>(i)], "");
      client.wait(keys, patience());
      EXPECT_EQ(client.num_keys(), kClients);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace lockstep
