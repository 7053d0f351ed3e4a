#include "lockstep/net/peers/peer_stream.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace lockstep {
namespace {

const StreamKeys kOurKeys{std::string(32, 'a'), std::string(32, 'b')};
const StreamKeys kTheirKeys{std::string(32, 'b'), std::string(32, 'a')};

struct StreamPair {
  explicit StreamPair(bool encrypted) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    ours = encrypted ? PeerStream(UniqueFd(ends[0]), kOurKeys) : PeerStream(UniqueFd(ends[0]));
    theirs = encrypted ? PeerStream(UniqueFd(ends[1]), kTheirKeys) : PeerStream(UniqueFd(ends[1]));
  }
  PeerStream ours;
  PeerStream theirs;
};

// One end in the test's hands: what it reads is what the network carries.
struct TappedStream {
  TappedStream() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    stream = PeerStream(UniqueFd(ends[0]), kOurKeys);
    network = UniqueFd(ends[1]);
  }
  std::string read_network() const {
    std::string bytes(std::size_t{1} << 20, '\0');
    const ssize_t got = ::recv(network.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
  }
  void write_network(const std::string& bytes) const {
    ASSERT_EQ(::send(network.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  PeerStream stream;
  UniqueFd network;
};

std::string random_text(std::mt19937& random, std::size_t bytes) {
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

// Cuts `bytes` at random places into parts for one call.
std::vector<iovec> random_parts(std::mt19937& random, char* data, std::size_t bytes) {
  std::vector<iovec> parts;
  while (bytes > 0 && parts.size() < 3) {
    const std::size_t most = std::min<std::size_t>(bytes, random() % 3 == 0 ? 40 : 200'000);
    const std::size_t piece = random() % (most + 1);
    parts.push_back({data, piece});
    data += piece;
    bytes -= piece;
  }
  return parts;
}

void await(int fd, short events) {
  pollfd waited{fd, events, 0};
  ::poll(&waited, 1, 10'000);
}

std::size_t bytes_of(const std::vector<iovec>& parts) {
  std::size_t bytes = 0;
  for (const iovec& part : parts) bytes += part.iov_len;
  return bytes;
}

void send_text(PeerStream& stream, std::string text, unsigned seed) {
  std::mt19937 random(seed);
  for (std::size_t done = 0; done < text.size() || stream.flush();) {
    const auto parts = random_parts(random, text.data() + done, text.size() - done);
    const ssize_t sent = stream.send(parts.data(), parts.size());
    if (sent > 0) done += static_cast<std::size_t>(sent);
    if (sent < 0) {
      ASSERT_TRUE(errno == EAGAIN) << errno;
    }
    if (sent < static_cast<ssize_t>(bytes_of(parts)) || done == text.size()) await(stream.fd(), POLLOUT);
  }
}

std::string receive_text(PeerStream& stream, std::size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::string text(bytes, '\0');
  for (std::size_t done = 0; done < bytes;) {
    const auto parts = random_parts(random, text.data() + done, bytes - done);
    if (bytes_of(parts) == 0) continue;
    const ssize_t got = stream.receive(parts.data(), parts.size());
    if (got == 0) return text.substr(0, done);
    if (got > 0) done += static_cast<std::size_t>(got);
    // A short read means that nothing more is here, so that a poll is right.
    if (got < static_cast<ssize_t>(bytes_of(parts))) {
      EXPECT_FALSE(stream.holds_bytes());
      await(stream.fd(), POLLIN);
    }
  }
  return text;
}

class PeerStreamTest : public ::testing::TestWithParam<bool> {};

TEST_P(PeerStreamTest, CarriesBytesBothWaysWhateverTheCallsAre) {
  std::mt19937 random(3);
  for (unsigned round = 0; round < 8; ++round) {
    StreamPair pair(GetParam());
    const int room = 1 << (10 + random() % 8);
    ::setsockopt(pair.ours.fd(), SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    const std::string there = random_text(random, random() % 1'000'000);
    const std::string back = random_text(random, random() % 1'000'000);
    std::thread sends([&] { send_text(pair.ours, there, round); });
    std::thread answers([&] { send_text(pair.theirs, back, round + 100); });
    std::thread takes([&] { EXPECT_EQ(receive_text(pair.ours, back.size(), round + 200), back); });
    EXPECT_EQ(receive_text(pair.theirs, there.size(), round + 300), there);
    for (std::thread* const thread : {&sends, &answers, &takes}) thread->join();
  }
}

TEST_P(PeerStreamTest, SeesTheEndAfterTheLastByte) {
  StreamPair pair(GetParam());
  send_text(pair.ours, "the last words", 1);
  pair.ours = PeerStream();
  EXPECT_EQ(receive_text(pair.theirs, 100, 1), "the last words");
}

INSTANTIATE_TEST_SUITE_P(InClearAndEncrypted, PeerStreamTest, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "encrypted" : "in_clear"; });

TEST(EncryptedStream, ShowsNothingButLengths) {
  TappedStream tapped;
  const std::string text(1000, 'x');
  send_text(tapped.stream, text, 1);
  const std::string seen = tapped.read_network();
  EXPECT_GT(seen.size(), text.size());
  EXPECT_EQ(seen.find("xxxx"), std::string::npos);
}

TEST(EncryptedStream, HandsOutNothingOfARecordThatWasChanged) {
  TappedStream sender;
  const iovec part{const_cast<char*>("text"), 4};
  ASSERT_EQ(sender.stream.send(&part, 1), 4);
  const std::string record = sender.read_network();
  ASSERT_EQ(record.size(), 4U + 4 + 16);
  for (std::size_t i = 0; i < record.size(); ++i) {
    if (i == 1 || i == 2) continue;  // a longer record is awaited then
    std::string changed = record;
    changed[i] = static_cast<char>(changed[i] ^ (i == 0 ? 5 : 1));
    TappedStream receiver;
    receiver.stream = PeerStream(UniqueFd(::dup(receiver.stream.fd())), kTheirKeys);
    receiver.write_network(changed);
    std::array<char, 8> room{};
    const iovec place{room.data(), room.size()};
    ASSERT_EQ(receiver.stream.receive(&place, 1), -1) << i;
    EXPECT_EQ(errno, EBADMSG) << i;
    EXPECT_NE(PeerStream::text_of(EBADMSG).find("changed on the way"), std::string::npos);
  }
}

TEST(EncryptedStream, RefusesRecordsThatAreRepeatedOrCut) {
  TappedStream sender;
  const iovec part{const_cast<char*>("text"), 4};
  ASSERT_EQ(sender.stream.send(&part, 1), 4);
  const std::string record = sender.read_network();
  TappedStream receiver;
  receiver.stream = PeerStream(UniqueFd(::dup(receiver.stream.fd())), kTheirKeys);
  receiver.write_network(record + record);
  std::array<char, 8> room{};
  const iovec place{room.data(), room.size()};
  EXPECT_EQ(receiver.stream.receive(&place, 1), 4);
  EXPECT_EQ(receiver.stream.receive(&place, 1), -1);
  EXPECT_EQ(errno, EBADMSG);

  TappedStream cut;
  cut.stream = PeerStream(UniqueFd(::dup(cut.stream.fd())), kTheirKeys);
  cut.write_network(record.substr(0, record.size() - 1));
  EXPECT_EQ(cut.stream.receive(&place, 1), -1);
  EXPECT_EQ(errno, EAGAIN);
  cut.network = UniqueFd();
  EXPECT_EQ(cut.stream.receive(&place, 1), 0) << "the end of the connection, and none of the record's bytes";
}

}  // namespace
}  // namespace lockstep
