// One side of a connection in the test's hands: what no rank of ours sends.
#include "lockstep/comm/tcp/message_link.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/tcp/packet_lane.h"
#include "lockstep/comm/tcp/tcp_buffer.h"

namespace lockstep {
namespace {

struct SocketPair {
  SocketPair() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    ours = UniqueFd(ends[0]);
    theirs = UniqueFd(ends[1]);
  }
  UniqueFd ours;
  UniqueFd theirs;
};

void write_to(const UniqueFd& fd, const FrameHeader& header, const std::string& body = {}) {
  const auto head = header.encode();
  const std::string all = std::string(head.data(), head.size()) + body;
  ASSERT_EQ(::send(fd.get(), all.data(), all.size(), MSG_NOSIGNAL), static_cast<ssize_t>(all.size()));
}

// A mesh of one link, moved by hand.
class LinkByHand : public TcpTraffic {
 public:
  LinkByHand() : link(std::move(messages_.ours), std::move(grants_.ours)) {}

  const UniqueFd& their_messages() const { return messages_.theirs; }
  const UniqueFd& their_grants() const { return grants_.theirs; }
  std::optional<FrameHeader> next_grant() const {
    std::array<char, FrameHeader::kBytes> bytes;
    if (::recv(grants_.theirs.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) != FrameHeader::kBytes) return {};
    return FrameHeader::decode(bytes.data());
  }

  void enter(TcpBuffer&) override {}
  void leave(TcpBuffer&, bool) override { link.stop(); }
  void post_send(int, std::uint64_t slot, TcpBuffer& owner, std::byte* data, std::size_t bytes) override {
    link.post_send(slot, {&owner, data, bytes});
  }
  void post_recv(int, std::uint64_t slot, TcpBuffer& owner, std::byte* data, std::size_t bytes) override {
    link.post_recv(slot, {&owner, data, bytes});
  }
  bool is_broken() const override { return false; }
  [[noreturn]] void fail(const std::string& reason) override { throw MeshError(MeshError::Kind::Lost, reason); }

 private:
  SocketPair messages_;
  SocketPair grants_;

 public:
  MessageLink link;
};

class ReceivingLink : public ::testing::Test {
 protected:
  // The memory after the receive's must stay as it is.
  std::string memory_ = std::string(4, '.') + "after";
  LinkByHand mesh_;
  std::unique_ptr<TcpBuffer> buffer_ = std::make_unique<TcpBuffer>(mesh_, memory_.data(), 4);
};

TEST_F(ReceivingLink, GrantsWhatIsPostedAndTakesIt) {
  buffer_->recv(0, 7, 0, 4);
  const auto grant = mesh_.next_grant();
  ASSERT_TRUE(grant);
  EXPECT_EQ(grant->mark, 7U);
  EXPECT_EQ(grant->bytes, 4U);
  write_to(mesh_.their_messages(), {7, 4}, "data");
  EXPECT_TRUE(mesh_.link.read_messages());
  buffer_->wait_received();
  EXPECT_EQ(memory_, "dataafter");
}

TEST_F(ReceivingLink, TakesMessagesInPieces) {
  buffer_->recv(0, 7, 0, 2);
  buffer_->recv(0, 7, 2, 2);
  const auto head = FrameHeader{7, 2}.encode();
  std::string all(head.data(), head.size());
  all += "da" + all + "ta";
  for (const char byte : all) {
    ASSERT_EQ(::send(mesh_.their_messages().get(), &byte, 1, MSG_NOSIGNAL), 1);
    EXPECT_TRUE(mesh_.link.read_messages());
  }
  buffer_->wait_received();
  buffer_->wait_received();
  EXPECT_EQ(memory_, "dataafter");
}

struct Header {
  const char* name;
  FrameHeader sent;
  friend std::ostream& operator<<(std::ostream& out, const Header& header) { return out << header.name; }
};

class ForeignHeader : public ReceivingLink, public ::testing::WithParamInterface<Header> {};

TEST_P(ForeignHeader, WritesNothingAndEndsTheLink) {
  buffer_->recv(0, 7, 0, 4);
  write_to(mesh_.their_messages(), GetParam().sent, std::string(256, 'x'));
  EXPECT_FALSE(mesh_.link.read_messages());
  EXPECT_NE(mesh_.link.loss().find("nobody here asked for"), std::string::npos) << mesh_.link.loss();
  EXPECT_THROW(buffer_->wait_received(), MeshError);
  EXPECT_EQ(memory_, "....after");
}

INSTANTIATE_TEST_SUITE_P(Table, ForeignHeader,
                         ::testing::Values(Header{"another_slot", {8, 4}}, Header{"longer", {7, 5}},
                                           Header{"shorter", {7, 3}}, Header{"empty", {7, 0}},
                                           Header{"the_largest_number", {7, std::numeric_limits<std::uint64_t>::max()}},
                                           Header{"wraps_around", {7, ~std::uint64_t{0} - 3}}),
                         [](const auto& test) { return test.param.name; });

TEST_F(ReceivingLink, EndOfTheConnectionFailsWhatIsPosted) {
  buffer_->recv(0, 7, 0, 4);
  ::shutdown(mesh_.their_messages().get(), SHUT_RDWR);
  EXPECT_FALSE(mesh_.link.read_messages());
  EXPECT_THROW(buffer_->wait_received(), MeshError);
}

TEST_F(ReceivingLink, MessagesBeforeTheEndArrive) {
  buffer_->recv(0, 7, 0, 4);
  write_to(mesh_.their_messages(), {7, 4}, "data");
  ::shutdown(mesh_.their_messages().get(), SHUT_RDWR);
  while (mesh_.link.read_messages()) continue;
  buffer_->wait_received();
  EXPECT_EQ(memory_, "dataafter");
}

TEST_F(ReceivingLink, ASendWaitsForItsGrant) {
  buffer_->send(0, 9, 0, 4);
  EXPECT_FALSE(mesh_.link.write_messages());
  char none = 0;
  EXPECT_LT(::recv(mesh_.their_messages().get(), &none, 1, MSG_DONTWAIT), 0);
  write_to(mesh_.their_grants(), {9, 4});
  EXPECT_TRUE(mesh_.link.read_grants());
  EXPECT_FALSE(mesh_.link.write_messages());
  buffer_->wait_sent();
  char got[64];
  EXPECT_EQ(::recv(mesh_.their_messages().get(), got, sizeof(got), MSG_DONTWAIT), 16 + 4);
}

TEST_F(ReceivingLink, AGrantOfAnotherSizeEndsTheLink) {
  buffer_->send(0, 9, 0, 4);
  write_to(mesh_.their_grants(), {9, std::uint64_t{1} << 63});
  EXPECT_FALSE(mesh_.link.read_grants());
  EXPECT_THROW(buffer_->wait_sent(), MeshError);
}

TEST_F(ReceivingLink, AnEarlyGrantOfAnotherSizeEndsTheLink) {
  write_to(mesh_.their_grants(), {9, 5});
  EXPECT_TRUE(mesh_.link.read_grants());
  buffer_->send(0, 9, 0, 4);
  EXPECT_THROW(buffer_->wait_sent(), MeshError);
}

TEST(EarlyGrants, AreLimited) {
  EarlyGrants grants;
  for (std::size_t i = 0; i < EarlyGrants::kMost; ++i) ASSERT_TRUE(grants.add({1, 1}));
  EXPECT_FALSE(grants.add({1, 1}));
}

TEST(TcpBufferTest, RefusesPlacesOutsideOfItsMemory) {
  LinkByHand mesh;
  char memory[4];
  TcpBuffer buffer(mesh, memory, sizeof(memory));
  EXPECT_THROW(buffer.recv(0, 1, 3, 2), std::logic_error);
  EXPECT_THROW(buffer.recv(0, 1, ~std::size_t{0}, 2), std::logic_error);
}

TEST(PacketLaneTest, RefusesAPacketThatIsTooLong) {
  SocketPair pair;
  PacketLane lane(std::move(pair.ours), 64);
  write_to(pair.theirs, {1, 65});
  EXPECT_EQ(lane.read(), PacketLane::Reading::Arrived);
  EXPECT_THROW(lane.next(), MeshError);
}

TEST(PacketLaneTest, KeepsPacketsInOrderAndHasRoomForSome) {
  SocketPair pair;
  PacketLane lane(std::move(pair.ours), 64);
  for (std::uint64_t i = 0; i < 100; ++i) {
    write_to(pair.theirs, {i, i % 65}, std::string(i % 65, static_cast<char>('a' + i % 26)));
  }
  for (std::uint64_t i = 0; i < 100; ++i) {
    auto packet = lane.next();
    for (; !packet; packet = lane.next()) {
      ASSERT_TRUE(lane.reads());
      ASSERT_EQ(lane.read(), PacketLane::Reading::Arrived);
    }
    EXPECT_EQ(packet->header.mark, i);
    EXPECT_EQ(std::string(static_cast<const char*>(packet->data), packet->header.bytes),
              std::string(i % 65, static_cast<char>('a' + i % 26)));
    lane.release();
  }
}

}  // namespace
}  // namespace lockstep
