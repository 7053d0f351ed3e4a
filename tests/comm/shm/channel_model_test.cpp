// Every interleaving of sends and receives, on the protocol that the engines run.
//
// Seen to fail if a sender does not wait for a free place, or until the header of the message before is read, and if it
// announces a piece before it has written it.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/comm/shm/protocols/channel_protocol.h"
#include "tests/comm/shm/interleavings.h"

namespace lockstep::shm {
namespace {

struct ChannelCall {};

// The place of a channel's pieces: in the sender's memory.
constexpr int kMemoryIsThere = 10;
int place_of(std::uint64_t piece, std::uint64_t places) { return static_cast<int>(piece % places); }

ChannelHeader header_of(int from, std::uint64_t message) {
  const std::uint64_t mark = static_cast<std::uint64_t>(from + 1) * 100 + message;
  return {{{mark, mark + 10, mark + 20}}, mark + 30, mark + 40};
}
std::uint64_t content_of(int from, std::uint64_t piece) { return static_cast<std::uint64_t>(from + 1) * 1000 + piece; }

// Mistakes that a rank may make.
struct ChannelMistakes {
  std::uint64_t places = kChannelPieces;  // number of places
  bool opens_too_early = false;
  bool skips_pieces = false;  // the receiver reports a piece as read before it has read it
};

void send_message(CheckedMemory& memory, ChannelSender<CheckedMemory>& channel, std::uint64_t message, int pieces,
                  const ChannelMistakes& mistakes) {
  channel.begin_message(ChannelCall{}, header_of(memory.rank(), message));
  for (int i = 0; i < pieces; ++i) {
    channel.send_piece(ChannelCall{}, [&](std::uint64_t number) {
      memory.store(memory.data(memory.rank(), place_of(number, mistakes.places)), content_of(memory.rank(), number));
    });
  }
}

void receive_message(CheckedMemory& memory, ChannelReceiver<CheckedMemory>& channel, int from, std::uint64_t message,
                     int pieces, const ChannelMistakes& mistakes) {
  const ChannelHeader got = channel.await_message(ChannelCall{});
  const ChannelHeader want = header_of(from, message);
  memory.expect(got.announcement == want.announcement && got.tag == want.tag && got.bytes == want.bytes,
                "a header is of another message");
  for (int i = 0; i < pieces; ++i) {
    const auto check = [&](std::uint64_t number) {
      const std::uint64_t value = memory.load(memory.data(from, place_of(number, mistakes.places)));
      memory.expect(value == content_of(from, number), "a piece is another one");
    };
    std::uint64_t number_taken = 0;
    channel.take_piece(ChannelCall{}, [&](std::uint64_t number) {
      number_taken = number;
      if (!mistakes.skips_pieces) check(number);
    });
    if (mistakes.skips_pieces) check(number_taken);
  }
}

void open_channel(CheckedMemory& memory, ChannelSender<CheckedMemory>& channel, const ChannelMistakes& mistakes) {
  if (mistakes.opens_too_early) channel.open();
  memory.store(memory.data(memory.rank(), kMemoryIsThere), 1);
  if (!mistakes.opens_too_early) channel.open();
}

void await_channel(CheckedMemory& memory, ChannelReceiver<CheckedMemory>& channel, int from) {
  channel.await_open(ChannelCall{});
  memory.expect(memory.load(memory.data(from, kMemoryIsThere)) == 1, "the channel's memory is not there");
}

// Rank 0 sends messages with the given numbers of pieces, rank 1 receives them.
CheckResult check_one_way(const std::vector<int>& pieces, const ChannelMistakes& mistakes = {}) {
  const RankProgram sender = [=](CheckedMemory& memory) {
    ChannelSender<CheckedMemory> channel(memory, memory.channel(0, 1), 1);
    open_channel(memory, channel, mistakes);
    for (std::size_t m = 0; m < pieces.size(); ++m) send_message(memory, channel, m, pieces[m], mistakes);
  };
  const RankProgram receiver = [=](CheckedMemory& memory) {
    ChannelReceiver<CheckedMemory> channel(memory, memory.channel(0, 1), 0);
    await_channel(memory, channel, 0);
    for (std::size_t m = 0; m < pieces.size(); ++m) receive_message(memory, channel, 0, m, pieces[m], mistakes);
  };
  return check_all_interleavings({sender, receiver});
}

// Every rank sends to the next one and then receives from the one before, once for each message.
CheckResult check_ring(int ranks, std::uint64_t messages, int pieces) {
  CheckOptions options;
  options.world_size = ranks;
  const RankProgram program = [=](CheckedMemory& memory) {
    const int rank = memory.rank();
    const int next = (rank + 1) % ranks;
    const int before = (rank + ranks - 1) % ranks;
    ChannelSender<CheckedMemory> to_next(memory, memory.channel(rank, next), next);
    ChannelReceiver<CheckedMemory> from_before(memory, memory.channel(before, rank), before);
    to_next.open();
    from_before.await_open(ChannelCall{});
    for (std::uint64_t m = 0; m < messages; ++m) {
      send_message(memory, to_next, m, pieces, {});
      receive_message(memory, from_before, before, m, pieces, {});
    }
  };
  return check_all_interleavings(std::vector<RankProgram>(static_cast<std::size_t>(ranks), program), options);
}

TEST(ChannelModel, MessagesArriveWholeAndInOrder) {
  for (const std::vector<int>& pieces : std::vector<std::vector<int>>{{1}, {1, 1, 1}, {3}, {2, 1}, {1, 3, 1}, {5, 2}}) {
    const CheckResult result = check_one_way(pieces);
    EXPECT_EQ(result.failure, "") << ::testing::PrintToString(pieces);
    EXPECT_GT(result.endings, 0U);
  }
}

TEST(ChannelModel, RanksThatSendToEachOtherBothArrive) {
  EXPECT_EQ(check_ring(2, 1, 1).failure, "");
  EXPECT_EQ(check_ring(2, 1, 2).failure, "");
  EXPECT_EQ(check_ring(2, 2, 1).failure, "");
}

TEST(ChannelModel, ThreeRanksInARing) { EXPECT_EQ(check_ring(3, 1, 1).failure, ""); }

// A message longer than the channel waits for its receiver, as in MPI: two ranks that both send first wait forever.
TEST(ChannelModelItself, FindsRanksThatWaitForEachOther) {
  EXPECT_NE(check_ring(2, 1, 3).failure.find("wait for ever"), std::string::npos);
}

TEST(ChannelModelItself, FindsAPlaceThatIsWrittenWhileItIsRead) {
  ChannelMistakes mistakes;
  mistakes.places = 1;
  EXPECT_NE(check_one_way({2}, mistakes).failure.find("a piece is another one"), std::string::npos);
}

TEST(ChannelModelItself, FindsAReceiverThatReadsTooLate) {
  ChannelMistakes mistakes;
  mistakes.skips_pieces = true;
  EXPECT_NE(check_one_way({3}, mistakes).failure.find("a piece is another one"), std::string::npos);
}

TEST(ChannelModelItself, FindsAChannelThatIsOpenedBeforeItsMemoryIsThere) {
  ChannelMistakes mistakes;
  mistakes.opens_too_early = true;
  EXPECT_NE(check_one_way({1}, mistakes).failure.find("memory is not there"), std::string::npos);
}

// A sender that writes a header while the receiver still reads the one before.
TEST(ChannelModelItself, FindsAHeaderThatIsWrittenTooEarly) {
  const RankProgram sender = [](CheckedMemory& memory) {
    ChannelCell& cell = memory.channel(0, 1);
    for (std::uint64_t m = 0; m < 2; ++m) {
      const ChannelHeader header = header_of(0, m);
      for (std::size_t i = 0; i < 3; ++i) memory.store(cell.announcement[i], header.announcement.words[i]);
      memory.store(cell.tag, header.tag);
      memory.store(cell.bytes, header.bytes);
      memory.store(memory.data(0, place_of(m, kChannelPieces)), content_of(0, m));
      memory.store_in_order(cell.sent, m + 1);
    }
  };
  const RankProgram receiver = [](CheckedMemory& memory) {
    ChannelReceiver<CheckedMemory> channel(memory, memory.channel(0, 1), 0);
    for (std::uint64_t m = 0; m < 2; ++m) receive_message(memory, channel, 0, m, 1, {});
  };
  EXPECT_NE(check_all_interleavings({sender, receiver}).failure.find("a header is of another"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::shm
