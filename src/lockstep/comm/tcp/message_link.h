#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "lockstep/comm/tcp/frame_header.h"
#include "lockstep/comm/tcp/posted_messages.h"
#include "lockstep/net/peers/peer_stream.h"

namespace lockstep {

/// The messages between this rank and one peer, over two connections that have proven the group's key.
///
/// A posted receive sends a grant, its slot and size, over one connection. A posted send waits for its grant, and then
/// goes over the other one, as a header and its bytes. So a message's bytes always have a place: they are read from the
/// kernel into the memory that was posted, once, and a late receiver holds up only its own messages. Grants have their
/// own connection because they must not queue behind megabytes of messages.
///
/// Thread-safe, apart from what is for the mesh's thread alone.
class MessageLink {
 public:
  MessageLink(PeerStream messages, PeerStream grants) : messages_(std::move(messages)), grants_(std::move(grants)) {}

  int messages_fd() const { return messages_.fd(); }
  int grants_fd() const { return grants_.fd(); }

  /// @return  whether the mesh's thread must look at this link now
  bool post_send(std::uint64_t slot, const PostedMessage& message);
  bool post_recv(std::uint64_t slot, const PostedMessage& message);

  /// For the mesh's thread alone. Each handles some MiB at most, and does not wait.
  /// @return  whether bytes wait until the connection takes more
  bool write_messages();
  bool write_grants();
  /// @return  false if the connection has ended, or broke: `loss` then says why
  bool read_messages();
  bool read_grants();

  /// Why messages fail; empty while they do not.
  std::string loss();
  /// Ends both connections: no memory is used any more once `await_quiet` has returned. From any thread.
  void stop() noexcept;
  void await_quiet();

 private:
  struct Transfer {
    PostedMessage message;
    std::array<char, FrameHeader::kBytes> header;
    std::size_t done = 0;  // of header and message
  };
  class Unlocked;

  bool start_send(std::uint64_t slot, const PostedMessage& message);
  bool grant(const FrameHeader& header);
  bool flush_grants();
  bool take_header();
  void lose(const std::string& reason);

  PeerStream messages_;  // used by the mesh's thread
  std::mutex mutex_;     // guards the members below
  PeerStream grants_;
  std::condition_variable quiet_;
  bool stopped_ = false;
  bool transferring_ = false;  // the mesh's thread uses a message's memory
  std::string loss_;

  PostedMessages sends_;  // wait for their grants
  EarlyGrants early_grants_;
  std::deque<Transfer> granted_sends_;  // the first may have begun
  bool write_failed_ = false;           // reading will find out why

  PostedMessages receives_;
  std::optional<PostedMessage> receiving_;
  std::size_t received_ = 0;  // bytes of it
  std::array<char, FrameHeader::kBytes> incoming_header_{};
  std::size_t incoming_header_bytes_ = 0;

  std::string outgoing_grants_;  // what the connection has not taken yet
  std::string incoming_grants_;  // less than one
};

}  // namespace lockstep
