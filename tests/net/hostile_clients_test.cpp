#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/processor/process_memory.h"
#include "lockstep/net/hmac.h"
#include "lockstep/net/server/store_server.h"
#include "lockstep/net/sockets/socket.h"
#include "lockstep/net/store/handshake.h"
#include "lockstep/net/store/store_client.h"
#include "lockstep/net/store/store_protocol.h"
#include "lockstep/net/store/wire.h"
#include "tests/net/net_fixtures.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::kSecret;
using testing::patience;

std::string hello(const std::string& magic, unsigned version, std::size_t nonce_bytes) {
  WireWriter writer;
  writer.raw(magic);
  writer.u32(version);
  writer.raw(std::string(nonce_bytes, 'n'));
  return writer.bytes();
}

struct Bytes {
  const char* name;
  std::string sent;
  bool dropped_at_once = true;  // else the connection stays open, because one byte may begin an honest hello
  friend std::ostream& operator<<(std::ostream& out, const Bytes& bytes) { return out << bytes.name; }
};

class Stranger : public ::testing::TestWithParam<Bytes> {};

// Bytes of strangers before any proof; each connection is held open while an honest client works.
TEST_P(Stranger, HoldsUpNobody) {
  const StoreServer server(SocketAddress::tcp("127.0.0.1", 0), kSecret);
  StoreClient before(server.address(), kSecret, patience());
  std::vector<UniqueFd> held;
  for (int i = 0; i < 20; ++i) {
    Connected stranger = connect_once(server.address(), false, patience());
    ASSERT_TRUE(stranger.fd) << stranger.failure;
    send_all(stranger.fd.get(), GetParam().sent, patience());
    held.push_back(std::move(stranger.fd));
  }
  before.set("key", "value");
  StoreClient after(server.address(), kSecret, patience());
  EXPECT_EQ(after.get("key", patience()), "value");
  if (!GetParam().dropped_at_once) return;
  for (const UniqueFd& fd : held) {
    const Received got = receive_exactly(fd.get(), 1000, patience());
    EXPECT_TRUE(got.closed);
    EXPECT_TRUE(got.bytes.empty() || got.bytes.size() == 44) << got.bytes.size();  // at most a hello
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, Stranger,
    ::testing::Values(
        Bytes{"OneByteHeldOpen", "L", false}, Bytes{"NothingHeldOpen", "", false},
        Bytes{"HalfAHelloHeldOpen", hello("LOCKSTEP", 1, 10), false},
        Bytes{"AHelloAndNoProof", hello("LOCKSTEP", 1, 32), false},
        Bytes{"AHelloAndHalfAProof", hello("LOCKSTEP", 1, 32) + std::string(31, 'p'), false},
        Bytes{"OneWrongByte", "X"}, Bytes{"HttpProbe", "GET / HTTP/1.1\r\nHost: store\r\n\r\n"},
        Bytes{"TlsProbe", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(200, '\x5a')},
        Bytes{"RdpProbe",
              std::string("\x03\x00\x00\x13\x0e\xe0\x00\x00\x00\x00\x00\x01\x00\x08\x00\x03\x00\x00\x00", 19)},
        Bytes{"HugeLength", std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8)},
        Bytes{"AWrongProofAndAMebibyte", hello("LOCKSTEP", 1, 32) + std::string(1 << 20, 'p')},
        Bytes{"AWrongMagic", hello("LOCKSTEQ", 1, 32)}, Bytes{"AMebibyte", std::string(1 << 20, '\0')}),
    [](const auto& test) { return test.param.name; });

TEST(HostileClientsTest, AThousandHeldConnectionsKeepNobodyOut) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  const std::size_t count = std::min<std::size_t>(1000, files.rlim_cur > 600 ? (files.rlim_cur - 400) : 0);
  if (count < 300) GTEST_SKIP() << "the limit of open files is " << files.rlim_cur << "; this needs 700";
  StoreServerOptions options;
  options.handshake_timeout = std::chrono::hours(1);  // so that no timeout helps
  const StoreServer server(SocketAddress::tcp("127.0.0.1", 0), kSecret, options);
  StoreClient before(server.address(), kSecret, patience());
  std::vector<UniqueFd> held;
  for (std::size_t i = 0; i < count; ++i) {
    Connected stranger = connect_once(server.address(), false, patience());
    ASSERT_TRUE(stranger.fd) << stranger.failure;
    send_all(stranger.fd.get(), "LOCK", patience());
    held.push_back(std::move(stranger.fd));
    if (i % 100 == 0) before.set("key", std::to_string(i));
  }
  StoreClient after(server.address(), kSecret, patience());
  EXPECT_EQ(after.try_get("key"), std::to_string((count - 1) / 100 * 100));
}

TEST(HostileClientsTest, AFloodOfConnectionsKeepsNobodyOut) {
  const StoreServer server(SocketAddress::tcp("127.0.0.1", 0), kSecret);
  std::atomic<bool> stop{false};
  std::thread flood([&] {
    while (!stop) {
      const Connected stranger = connect_once(server.address(), false, patience());
      if (stranger.fd) send_all(stranger.fd.get(), hello("LOCKSTEP", 1, 32), patience());
    }
  });
  for (int i = 0; i < 20; ++i) {
    StoreClient client(server.address(), kSecret, patience());
    client.set("key", std::to_string(i));
    EXPECT_EQ(client.get("key", patience()), std::to_string(i));
  }
  stop = true;
  flood.join();
}

TEST(HostileClientsTest, ConnectionsWithoutProofAreClosedInTime) {
  StoreServerOptions options;
  options.handshake_timeout = std::chrono::milliseconds(50);
  const StoreServer server(SocketAddress::tcp("127.0.0.1", 0), kSecret, options);
  const Connected stranger = connect_once(server.address(), false, patience());
  send_all(stranger.fd.get(), "L", patience());
  EXPECT_TRUE(receive_exactly(stranger.fd.get(), 1, patience()).closed);
}

// A client that has proven itself and then misbehaves, on a Unix socket, on which frames carry no tags.
class ProvenPeer {
 public:
  explicit ProvenPeer(const SocketAddress& address) : connected_(connect_once(address, false, patience())) {
    EXPECT_EQ(prove_to_server(connected_.fd.get(), kSecret, patience()).outcome, ClientHandshake::Outcome::Proven);
  }
  bool send(const std::string& bytes) { return send_all(connected_.fd.get(), bytes, patience()); }
  std::size_t receive(std::size_t count) {
    return receive_exactly(connected_.fd.get(), count, patience()).bytes.size();
  }
  bool is_dropped() {
    const Received got = receive_exactly(connected_.fd.get(), 1 << 20, patience());
    return got.closed;
  }

 private:
  Connected connected_;
};

std::string framed(const std::string& body) {
  WireWriter writer;
  writer.text(body);
  return writer.bytes();
}

std::string request(StoreOperation operation, const std::string& fields) {
  WireWriter writer;
  writer.u8(static_cast<std::uint8_t>(operation));
  writer.u64(1);
  writer.raw(fields);
  return framed(writer.bytes());
}

struct BadFrame {
  const char* name;
  std::string bytes;
  friend std::ostream& operator<<(std::ostream& out, const BadFrame& frame) { return out << frame.name; }
};

class MalformedFrame : public ::testing::TestWithParam<BadFrame> {};

TEST_P(MalformedFrame, EndsItsConnectionOnly) {
  const TemporaryFolder folder;
  const StoreServer server(SocketAddress::unix_socket(folder / "store"), kSecret);
  StoreClient honest(server.address(), kSecret, patience());
  const std::int64_t before = process_memory().resident;
  ProvenPeer peer(server.address());
  ASSERT_TRUE(peer.send(GetParam().bytes));
  EXPECT_TRUE(peer.is_dropped());
  honest.set("key", "value");
  EXPECT_EQ(honest.get("key", patience()), "value");
  EXPECT_LT(process_memory().resident, before + (std::int64_t{64} << 20));  // no announced length was allocated
}

INSTANTIATE_TEST_SUITE_P(
    Table, MalformedFrame,
    ::testing::Values(
        BadFrame{"LengthOf4Gibibytes", std::string("\xff\xff\xff\xff", 4)},
        BadFrame{"LengthAboveTheLimit", std::string("\x01\x00\x81\x00", 4)}, BadFrame{"EmptyFrame", framed("")},
        BadFrame{"NoNumber", framed("\x01")},
        BadFrame{"UnknownOperation", request(static_cast<StoreOperation>(99), "")},
        BadFrame{"KeyLengthBeyondFrame", request(StoreOperation::TryGet, std::string("\xff\x0f\x00\x00k", 5))},
        BadFrame{"KeyLengthOf2To32", request(StoreOperation::Get, std::string("\xff\xff\xff\xffk", 5))},
        BadFrame{"BytesAfterTheEnd", request(StoreOperation::NumKeys, "x")},
        BadFrame{"WaitForTooManyKeys", request(StoreOperation::Wait, std::string("\xff\xff\xff\x7f", 4))},
        BadFrame{"WaitWithMissingKeys", request(StoreOperation::Wait, std::string("\x10\x00\x00\x00", 4))},
        BadFrame{"JoinCutShort", request(StoreOperation::Join, std::string(8, '\0'))}),
    [](const auto& test) { return test.param.name; });

TEST(HostileClientsTest, HalfAFrameHoldsUpNobody) {
  const TemporaryFolder folder;
  const StoreServer server(SocketAddress::unix_socket(folder / "store"), kSecret);
  ProvenPeer peer(server.address());
  WireWriter half;
  half.u32(1 << 20);
  half.raw("\x01 only the beginning");
  ASSERT_TRUE(peer.send(half.bytes()));
  StoreClient honest(server.address(), kSecret, patience());
  honest.set("key", "value");
  EXPECT_EQ(honest.get("key", patience()), "value");
}

TEST(HostileClientsTest, WhoDoesNotReadItsAnswersHoldsUpNobodyAndLosesNone) {
  const TemporaryFolder folder;
  const StoreServer server(SocketAddress::unix_socket(folder / "store"), kSecret);
  StoreClient honest(server.address(), kSecret, patience());
  constexpr std::size_t kValueBytes = std::size_t{4} << 20;
  honest.set("big", std::string(kValueBytes, 'v'));
  ProvenPeer peer(server.address());
  WireWriter key;
  key.text("big");
  constexpr int kAsked = 30;  // far more than the server would queue
  for (int i = 0; i < kAsked; ++i) ASSERT_TRUE(peer.send(request(StoreOperation::TryGet, key.bytes())));
  const std::int64_t before = process_memory().resident;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(honest.add("count", 1), i + 1);
  EXPECT_LT(process_memory().resident, before + (std::int64_t{64} << 20));
  for (int i = 0; i < kAsked; ++i) EXPECT_EQ(peer.receive(4 + 9 + 1 + 4 + kValueBytes), 4 + 9 + 1 + 4 + kValueBytes);
}

TEST(HostileClientsTest, TooManyWaitsEndTheConnection) {
  const TemporaryFolder folder;
  const StoreServer server(SocketAddress::unix_socket(folder / "store"), kSecret);
  ProvenPeer peer(server.address());
  for (std::uint64_t i = 0; i <= kMaxWaitsPerClient; ++i) {
    WireWriter get;
    get.u8(static_cast<std::uint8_t>(StoreOperation::Get));
    get.u64(i);
    get.text("never set");
    if (!peer.send(framed(get.bytes()))) break;
  }
  EXPECT_TRUE(peer.is_dropped());
}

// Random bytes after the handshake: every outcome is allowed except a crash, or harm to others. ASan and UBSan watch.
TEST(HostileClientsTest, RandomFramesHarmNobody) {
  const TemporaryFolder folder;
  const StoreServer server(SocketAddress::unix_socket(folder / "store"), kSecret);
  StoreClient honest(server.address(), kSecret, patience());
  for (int i = 0; i < 300; ++i) {
    ProvenPeer peer(server.address());
    const std::string noise = random_bytes(64);
    WireWriter body;
    body.u8(static_cast<std::uint8_t>(1 + i % 13));
    body.raw(noise);
    peer.send(framed(body.bytes().substr(0, 1 + static_cast<unsigned char>(noise[0]) % 64)));
    peer.send(noise);
  }
  honest.set("honest key", "value");
  EXPECT_EQ(honest.get("honest key", patience()), "value");
}

}  // namespace
}  // namespace lockstep
