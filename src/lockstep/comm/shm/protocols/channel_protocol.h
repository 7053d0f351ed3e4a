#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/comm/shm/protocols/channel_cell.h"

namespace lockstep::shm {

/// Places for pieces of messages in a channel: one is written while the other is read.
constexpr std::uint64_t kChannelPieces = 2;

/// The header of a message, which a channel holds before the first piece.
struct ChannelHeader {
  Announcement announcement;
  std::uint64_t tag = 0;
  std::uint64_t bytes = 0;
};

/// The sender's side of a channel. Pieces are numbered across all messages. Piece n is in place n % kChannelPieces; it
/// is written once `sent` is above n, and read once `received` is above n. The header of a message is written when all
/// pieces of the message before have been read: then the receiver no longer reads the old header.
///
/// `Memory` is Group, or the model checker's. One thread at a time per side.
template <class Memory>
class ChannelSender {
 public:
  ChannelSender(Memory& memory, ChannelCell& cell, int receiver) : memory_(memory), cell_(cell), receiver_(receiver) {}

  /// Shows that the channel's memory is ready for the receiver.
  void open() { publish(cell_.open, 1); }

  template <class Call>
  void begin_message(const Call& call, const ChannelHeader& header) {
    await_received(call, sent_);
    for (std::size_t i = 0; i < header.announcement.words.size(); ++i) {
      memory_.store(cell_.announcement[i], header.announcement.words[i]);
    }
    memory_.store(cell_.tag, header.tag);
    memory_.store(cell_.bytes, header.bytes);
  }
  /// Sends one more piece, which `write(number)` writes to its place.
  template <class Call, class Write>
  void send_piece(const Call& call, Write&& write) {
    if (sent_ >= kChannelPieces) await_received(call, sent_ - kChannelPieces + 1);
    write(sent_);
    ++sent_;
    publish(cell_.sent, sent_);
  }

 private:
  void publish(Word& word, std::uint64_t value) {
    memory_.publish(word, value, [] { return true; });
  }
  template <class Call>
  void await_received(const Call& call, std::uint64_t least) {
    memory_.await(
        call, [&] { return memory_.load(cell_.received) >= least; }, [this](int rank) { return rank == receiver_; });
  }

  Memory& memory_;
  ChannelCell& cell_;
  int receiver_;
  std::uint64_t sent_ = 0;
};

/// The receiver's side.
template <class Memory>
class ChannelReceiver {
 public:
  ChannelReceiver(Memory& memory, ChannelCell& cell, int sender) : memory_(memory), cell_(cell), sender_(sender) {}

  /// Waits until the channel's memory is ready.
  template <class Call>
  void await_open(const Call& call) {
    await(call, cell_.open, 1);
  }
  /// The header of the next message; its pieces must be taken after that.
  template <class Call>
  ChannelHeader await_message(const Call& call) {
    await(call, cell_.sent, received_ + 1);
    ChannelHeader header;
    for (std::size_t i = 0; i < header.announcement.words.size(); ++i) {
      header.announcement.words[i] = memory_.load(cell_.announcement[i]);
    }
    header.tag = memory_.load(cell_.tag);
    header.bytes = memory_.load(cell_.bytes);
    return header;
  }
  /// Takes one piece, which `read(number)` copies from its place.
  template <class Call, class Read>
  void take_piece(const Call& call, Read&& read) {
    await(call, cell_.sent, received_ + 1);
    read(received_);
    ++received_;
    memory_.publish(cell_.received, received_, [] { return true; });
  }

 private:
  template <class Call>
  void await(const Call& call, const Word& word, std::uint64_t least) {
    memory_.await(
        call, [&] { return memory_.load(word) >= least; }, [this](int rank) { return rank == sender_; });
  }

  Memory& memory_;
  ChannelCell& cell_;
  int sender_;
  std::uint64_t received_ = 0;
};

}  // namespace lockstep::shm
