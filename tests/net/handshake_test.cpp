#include "lockstep/net/store/handshake.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "lockstep/net/hmac.h"
#include "lockstep/net/server/store_server.h"
#include "lockstep/net/sockets/socket.h"
#include "lockstep/net/store/frame.h"
#include "lockstep/net/store/store_client.h"
#include "lockstep/net/store/store_protocol.h"
#include "lockstep/net/store/wire.h"
#include "tests/net/net_fixtures.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::error_of;
using testing::kSecret;
using testing::patience;

constexpr const char* kOtherSecret = "quite another secret of a stranger";

// A server for one connection at a time; the test writes its side of the protocol.
class ScriptedServer {
 public:
  explicit ScriptedServer(std::function<void(int fd)> script, int connections = 1)
      : listener_(listen_at(SocketAddress::tcp("127.0.0.1", 0), patience())),
        thread_([this, script = std::move(script), connections] {
          for (int i = 0; i < connections; ++i) {
            pollfd waited{listener_.fd.get(), POLLIN, 0};
            ::poll(&waited, 1, patience().poll_timeout_ms());
            const UniqueFd fd(::accept4(listener_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
            if (fd) script(fd.get());
          }
        }) {}
  ~ScriptedServer() { thread_.join(); }
  const SocketAddress& address() const { return listener_.address; }

 private:
  Listener listener_;
  std::thread thread_;
};

// The honest server's side of a handshake, with its keys.
SessionKeys serve_handshake(int fd, const std::string& secret) {
  ServerHandshake handshake(secret);
  while (!handshake.done()) {
    const Received got = receive_exactly(fd, handshake.wanted_bytes(), patience());
    if (got.bytes.empty()) break;
    send_all(fd, handshake.take(got.bytes), patience());
  }
  return handshake.keys();
}

void wait_for_end(int fd) { receive_exactly(fd, 1 << 20, patience()); }

TEST(HandshakeTest, BothSidesGetTheSameKeysAndNewOnesEachTime) {
  SessionKeys server_keys;
  ScriptedServer server([&](int fd) { server_keys = serve_handshake(fd, kSecret); }, 2);
  std::string before;
  for (int i = 0; i < 2; ++i) {
    const Connected connected = connect_once(server.address(), false, patience());
    const ClientHandshake handshake = prove_to_server(connected.fd.get(), kSecret, patience());
    EXPECT_EQ(handshake.outcome, ClientHandshake::Outcome::Proven);
    EXPECT_EQ(handshake.keys.client_to_server.size(), kDigestBytes);
    EXPECT_NE(handshake.keys.client_to_server, handshake.keys.server_to_client);
    EXPECT_NE(handshake.keys.client_to_server, before);
    before = handshake.keys.client_to_server;
  }
}

TEST(HandshakeTest, AStrangerGetsANonceAndNothingElse) {
  const StoreServer server(SocketAddress::tcp("127.0.0.1", 0), kSecret);
  std::string first;
  for (int i = 0; i < 2; ++i) {
    const Connected connected = connect_once(server.address(), false, patience());
    WireWriter hello;
    hello.raw("LOCKSTEP");
    hello.u32(kStoreProtocolVersion);
    hello.raw(std::string(32, 'n'));
    ASSERT_TRUE(send_all(connected.fd.get(), hello.bytes(), patience()));
    const Received answer = receive_exactly(connected.fd.get(), 44, patience());
    ASSERT_EQ(answer.bytes.size(), 44U);
    EXPECT_NE(answer.bytes, first);  // an equal hello gets another nonce, so that no proof can be repeated
    first = answer.bytes;
    ASSERT_TRUE(send_all(connected.fd.get(), std::string(32, 'p'), patience()));
    const Received rest = receive_exactly(connected.fd.get(), 1, patience());
    EXPECT_TRUE(rest.closed);
    EXPECT_EQ(rest.bytes, "");
  }
}

TEST(HandshakeTest, ARecordedProofIsWorthNothing) {
  const StoreServer server(SocketAddress::tcp("127.0.0.1", 0), kSecret);
  const Connected honest = connect_once(server.address(), false, patience());
  // The bytes of an honest client that an eavesdropper gets. The client always uses the same nonce here, which helps
  // the attacker.
  WireWriter hello;
  hello.raw("LOCKSTEP");
  hello.u32(kStoreProtocolVersion);
  hello.raw(std::string(32, 'n'));
  ASSERT_TRUE(send_all(honest.fd.get(), hello.bytes(), patience()));
  const std::string answer = receive_exactly(honest.fd.get(), 44, patience()).bytes;
  const std::string proof =
      hmac_sha256("lockstep job secret:" + kSecret, {"lockstep store: client knows the secret", hello.bytes(), answer});
  ASSERT_TRUE(send_all(honest.fd.get(), proof, patience()));
  EXPECT_EQ(receive_exactly(honest.fd.get(), kDigestBytes, patience()).bytes.size(), kDigestBytes);

  const Connected replay = connect_once(server.address(), false, patience());
  ASSERT_TRUE(send_all(replay.fd.get(), hello.bytes(), patience()));
  receive_exactly(replay.fd.get(), 44, patience());
  ASSERT_TRUE(send_all(replay.fd.get(), proof, patience()));
  EXPECT_TRUE(receive_exactly(replay.fd.get(), 1, patience()).closed);
}

// Whether the client and the server ask for encryption.
class StoreWishes : public ::testing::TestWithParam<std::pair<bool, bool>> {};

TEST_P(StoreWishes, EncryptIfOneSideAsks) {
  const auto [client_asks, server_asks] = GetParam();
  const testing::ScopedVariable variable("LOCKSTEP_ENCRYPT", client_asks ? "1" : "0");
  SessionKeys served;
  ScriptedServer server([&served, asks = server_asks](int fd) {
    ServerHandshake handshake(kSecret, asks);
    while (!handshake.done()) {
      const Received got = receive_exactly(fd, handshake.wanted_bytes(), patience());
      if (got.bytes.empty()) break;
      send_all(fd, handshake.take(got.bytes), patience());
    }
    served = handshake.keys();
  });
  const Connected connected = connect_once(server.address(), false, patience());
  const ClientHandshake handshake = prove_to_server(connected.fd.get(), kSecret, patience());
  ASSERT_EQ(handshake.outcome, ClientHandshake::Outcome::Proven);
  EXPECT_EQ(handshake.keys.encrypted, client_asks || server_asks);
}

INSTANTIATE_TEST_SUITE_P(Sides, StoreWishes,
                         ::testing::Values(std::pair{false, false}, std::pair{true, false}, std::pair{false, true},
                                           std::pair{true, true}));

// Somebody between the two takes the only wish for encryption out of the client's hello.
TEST(HandshakeTest, NobodyCanTakeBackAWishOnTheWay) {
  const testing::ScopedVariable variable("LOCKSTEP_ENCRYPT", "1");
  bool refused = false;
  ScriptedServer server([&refused](int fd) {
    std::string hello = receive_exactly(fd, 44, patience()).bytes;
    ASSERT_EQ(hello.size(), 44U);
    ASSERT_EQ(hello[10], 1);
    hello[10] = 0;
    ServerHandshake handshake(kSecret);
    send_all(fd, handshake.take(hello), patience());
    try {
      handshake.take(receive_exactly(fd, handshake.wanted_bytes(), patience()).bytes);
    } catch (const WireError&) {
      refused = true;
    }
  });
  {
    const Connected connected = connect_once(server.address(), false, patience());
    EXPECT_EQ(prove_to_server(connected.fd.get(), kSecret, patience()).outcome,
              ClientHandshake::Outcome::ClosedAtProof);
  }
  EXPECT_TRUE(refused);
}

class WrongSecret : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(WrongSecret, IsRefusedOnTcpAndUnixSockets) {
  const TemporaryFolder folder;
  for (const SocketAddress& address : {SocketAddress::tcp("127.0.0.1", 0), SocketAddress::unix_socket(folder / "s")}) {
    const StoreServer server(address, GetParam().first);
    const std::string text = error_of([&] { StoreClient(server.address(), GetParam().second, patience()); });
    EXPECT_NE(text.find("secret"), std::string::npos) << text;
    EXPECT_NE(text.find(server.address().text()), std::string::npos) << text;
    EXPECT_EQ(text.find(kSecret), std::string::npos) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, WrongSecret,
                         ::testing::Values(std::pair(kSecret.c_str(), kOtherSecret), std::pair(kSecret.c_str(), ""),
                                           std::pair("", kSecret.c_str())));

TEST(HandshakeTest, TheClientRefusesAServerThatDoesNotKnowTheSecret) {
  ScriptedServer server([](int fd) {
    receive_exactly(fd, 44, patience());
    WireWriter hello;
    hello.raw("LOCKSTEP");
    hello.u32(kStoreProtocolVersion);
    hello.raw(random_bytes(32));
    send_all(fd, hello.bytes(), patience());
    const Received proof = receive_exactly(fd, 32, patience());
    send_all(fd, proof.bytes, patience());  // reflects the client's own proof
    wait_for_end(fd);
  });
  const std::string text = error_of([&] { StoreClient(server.address(), kSecret, patience()); });
  EXPECT_NE(text.find("does not know this job's secret"), std::string::npos) << text;
}

TEST(HandshakeTest, AnotherVersionIsNamed) {
  ScriptedServer server([](int fd) {
    receive_exactly(fd, 44, patience());
    WireWriter hello;
    hello.raw("LOCKSTEP");
    hello.u32(77);
    hello.raw(random_bytes(32));
    send_all(fd, hello.bytes(), patience());
    wait_for_end(fd);
  });
  const std::string text = error_of([&] { StoreClient(server.address(), kSecret, patience()); });
  EXPECT_NE(text.find("version 77"), std::string::npos) << text;
}

TEST(HandshakeTest, AnotherKindOfServerIsNoStore) {
  ScriptedServer server(
      [](int fd) { send_all(fd, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", patience()); });
  const std::string text = error_of([&] { StoreClient(server.address(), kSecret, patience()); });
  EXPECT_NE(text.find("not a Lockstep store"), std::string::npos) << text;
}

TEST(HandshakeTest, AServerThatIsSilentIsATimeout) {
  const testing::ReservedPort port;
  port.listen();
  const std::string text = error_of<TimeoutError>([&] {
    StoreClient(SocketAddress::tcp("127.0.0.1", port.port()), kSecret, Deadline::after(std::chrono::milliseconds(100)));
  });
  EXPECT_NE(text.find("does not answer"), std::string::npos) << text;
}

std::string frame(FrameMac& mac, const std::string& body) {
  WireWriter bytes;
  bytes.u32(static_cast<std::uint32_t>(body.size()));
  const std::string tag = mac.next_tag(bytes.bytes(), body);
  bytes.raw(body);
  bytes.raw(tag);
  return bytes.bytes();
}

std::string set_request(const std::string& key) {
  WireWriter request;
  request.u8(static_cast<std::uint8_t>(StoreOperation::Set));
  request.u64(1);
  request.text(key);
  request.text("value");
  return request.bytes();
}

// Messages of an attacker on a proven connection after its first frame. The table's functions get the client's MAC and
// that first frame, so that they can change honest messages.
struct Attack {
  const char* name;
  std::function<std::string(FrameMac& mac, const std::string& first)> sent;
  friend std::ostream& operator<<(std::ostream& out, const Attack& attack) { return out << attack.name; }
};

std::string flip(std::string bytes, std::size_t at) {
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  return bytes;
}

class InjectedFrame : public ::testing::TestWithParam<Attack> {};

TEST_P(InjectedFrame, EndsTheConnectionAndIsNotObeyed) {
  const StoreServer server(SocketAddress::tcp("127.0.0.1", 0), kSecret);
  const Connected connected = connect_once(server.address(), false, patience());
  const ClientHandshake handshake = prove_to_server(connected.fd.get(), kSecret, patience());
  FrameMac mac(handshake.keys.client_to_server);
  const std::string first = frame(mac, set_request("honest"));
  ASSERT_TRUE(send_all(connected.fd.get(), first, patience()));
  ASSERT_EQ(receive_exactly(connected.fd.get(), 4 + 9 + 32, patience()).bytes.size(), 45U);
  {
    StoreClient witness(server.address(), kSecret, patience());
    witness.delete_key("honest");
  }
  ASSERT_TRUE(send_all(connected.fd.get(), GetParam().sent(mac, first), patience()));
  EXPECT_TRUE(receive_exactly(connected.fd.get(), 1, patience()).closed);
  EXPECT_EQ(StoreClient(server.address(), kSecret, patience()).num_keys(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Table, InjectedFrame,
    ::testing::Values(
        Attack{"RepeatedFrame", [](FrameMac&, const std::string& first) { return first; }},
        Attack{"SkippedFrame",
               [](FrameMac& mac, const std::string&) {
                 frame(mac, set_request("held back"));
                 return frame(mac, set_request("victim"));
               }},
        Attack{"ChangedKey",
               [](FrameMac& mac, const std::string&) { return flip(frame(mac, set_request("victim")), 20); }},
        Attack{"ChangedLength",
               [](FrameMac& mac, const std::string&) { return flip(frame(mac, set_request("victim")), 0) + "more"; }},
        Attack{"ChangedTag",
               [](FrameMac& mac, const std::string&) {
                 const std::string honest = frame(mac, set_request("victim"));
                 return flip(honest, honest.size() - 1);
               }},
        Attack{"ForgedTag",
               [](FrameMac& mac, const std::string&) {
                 const std::string honest = frame(mac, set_request("victim"));
                 return honest.substr(0, honest.size() - kDigestBytes) + std::string(kDigestBytes, '\0');
               }}),
    [](const auto& test) { return test.param.name; });

TEST(HandshakeTest, TheClientRefusesForgedAnswers) {
  ScriptedServer server([](int fd) {
    const SessionKeys keys = serve_handshake(fd, kSecret);
    const Received request = receive_exactly(fd, 4, patience());
    EXPECT_EQ(request.bytes.size(), 4U);
    WireWriter answer;
    answer.u64(1);
    answer.u8(0);
    FrameMac wrong_direction(keys.client_to_server);
    send_all(fd, frame(wrong_direction, answer.bytes()), patience());
    wait_for_end(fd);
  });
  StoreClient client(server.address(), kSecret, patience());
  const std::string text = error_of([&] { client.set("key", "value"); });
  EXPECT_NE(text.find("authentication"), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep
