#include "lockstep/comm/shm/point_to_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/shm/announcement.h"
#include "lockstep/comm/shm/memory/free_memory.h"

namespace lockstep::shm {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{128} << 10;
constexpr std::size_t kChannelBytes = kChannelPieces * kPieceBytes;

std::byte* piece(const Mapping& memory, std::uint64_t number) {
  return memory.data() + static_cast<std::size_t>(number % kChannelPieces) * kPieceBytes;
}

// An empty message has one empty piece.
std::uint64_t pieces_of(std::size_t bytes) { return std::max<std::size_t>(1, (bytes + kPieceBytes - 1) / kPieceBytes); }

}  // namespace

struct PointToPoint::Outgoing {
  ChannelSender<Group> channel;
  std::shared_ptr<Mapping> memory;
};

struct PointToPoint::Incoming {
  ChannelReceiver<Group> channel;
  std::shared_ptr<Mapping> memory;
  std::map<int, std::deque<std::pair<Announcement, std::vector<std::byte>>>> kept;  // by tag, in the order of arrival
};

PointToPoint::PointToPoint(Group& group, MemorySharing& sharing) : group_(group), sharing_(sharing) {
  for (int rank = 0; rank < group.world_size(); ++rank) {
    outgoing_.push_back(std::make_unique<Outgoing>(Outgoing{{group, cell(group.rank(), rank), rank}, nullptr}));
    incoming_.push_back(std::make_unique<Incoming>(Incoming{{group, cell(rank, group.rank()), rank}, nullptr, {}}));
  }
}

PointToPoint::~PointToPoint() = default;

ChannelCell& PointToPoint::cell(int from, int to) const {
  return *reinterpret_cast<ChannelCell*>(group_.at(group_.layout().channel(from, to)));
}

// The labels of channels, numbered by sender.
Label PointToPoint::label_of(int from) const {
  return {group_.header().token, kFirstChannelNumber + static_cast<std::uint64_t>(from)};
}

void PointToPoint::open_outgoing(Outgoing& outgoing, const Call& call, int to) {
  if (outgoing.memory) return;
  Segment segment = sharing_.make(kChannelBytes);
  sharing_.reserve(segment, 0, kChannelBytes);
  const Recipient recipient{group_.load(group_.cell(to).inbox), label_of(group_.rank())};
  if (!sharing_.offer(segment, recipient, call.deadline)) {
    // The peer has ended or left: waiting for it shows which.
    group_.await_without_bell(
        call, [] { return false; }, [to](int rank) { return rank == to; });
  }
  outgoing.memory = std::move(segment.mapping);
  outgoing.channel.open();
}

void PointToPoint::send(const Call& call, const std::byte* data, std::size_t bytes, int to, int tag) {
  group_.throw_if_broken();
  Outgoing& outgoing = *outgoing_[static_cast<std::size_t>(to)];
  open_outgoing(outgoing, call, to);
  outgoing.channel.begin_message(
      call, {call.announcement, static_cast<std::uint64_t>(static_cast<std::uint32_t>(tag)), bytes});
  std::size_t offset = 0;
  for (std::uint64_t left = pieces_of(bytes); left > 0; --left) {
    const std::size_t length = std::min(kPieceBytes, bytes - offset);
    outgoing.channel.send_piece(call, [&](std::uint64_t number) {
      if (length != 0) std::memcpy(piece(*outgoing.memory, number), data + offset, length);
    });
    offset += length;
  }
}

void PointToPoint::open_incoming(Incoming& incoming, const Call& call, int from) {
  if (incoming.memory) return;
  incoming.channel.await_open(call);
  incoming.memory = sharing_.accept(label_of(from), kChannelBytes, std::chrono::milliseconds(0)).mapping;
  if (!incoming.memory) {
    throw Error("the memory of the channel from " + group_.named(from).name + " has not arrived", "", "report this");
  }
}

PointToPoint::Message PointToPoint::next_message(Incoming& incoming, const Call& call, int from) {
  open_incoming(incoming, call, from);
  const ChannelHeader header = incoming.channel.await_message(call);
  return {header.announcement, static_cast<int>(static_cast<std::uint32_t>(header.tag)), header.bytes};
}

void PointToPoint::take_pieces(Incoming& incoming, const Call& call, std::byte* to, std::size_t bytes) {
  std::size_t offset = 0;
  for (std::uint64_t left = pieces_of(bytes); left > 0; --left) {
    const std::size_t length = std::min(kPieceBytes, bytes - offset);
    incoming.channel.take_piece(call, [&](std::uint64_t number) {
      if (length != 0) std::memcpy(to + offset, piece(*incoming.memory, number), length);
    });
    offset += length;
  }
}

void PointToPoint::check(const Call& call, int from, const Message& message, std::size_t bytes) {
  const Announced theirs = unpack(message.announcement);
  const Announced mine = unpack(call.announcement);
  if (theirs.count == mine.count && theirs.dtype == mine.dtype && message.bytes == bytes) return;
  group_.fail_disagreement(call.announcement, from, message.announcement);
}

void PointToPoint::receive(const Call& call, std::byte* data, std::size_t bytes, int from, int tag) {
  group_.throw_if_broken();
  Incoming& incoming = *incoming_[static_cast<std::size_t>(from)];
  auto& kept = incoming.kept[tag];
  if (!kept.empty()) {
    const auto [announcement, content] = std::move(kept.front());
    kept.pop_front();
    check(call, from, {announcement, tag, content.size()}, bytes);
    if (bytes != 0) std::memcpy(data, content.data(), bytes);
    return;
  }
  for (;;) {
    const Message message = next_message(incoming, call, from);
    if (message.tag == tag) {
      check(call, from, message, bytes);
      take_pieces(incoming, call, data, bytes);
      return;
    }
    if (message.bytes > available_memory_bytes()) {
      throw Error(fmt::format("no memory to keep a message of {} bytes with tag {} from {}", message.bytes, message.tag,
                              group_.named(from).name),
                  "", "receive messages in the order in which they are sent");
    }
    std::vector<std::byte> content(message.bytes);
    take_pieces(incoming, call, content.data(), content.size());
    incoming.kept[message.tag].emplace_back(message.announcement, std::move(content));
  }
}

}  // namespace lockstep::shm
