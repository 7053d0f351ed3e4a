#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/files/unique_fd.h"
#include "lockstep/net/peers/peer_handshake.h"
#include "lockstep/net/sockets/socket.h"
#include "lockstep/net/sockets/socket_address.h"
#include "lockstep/net/sockets/socket_poller.h"

namespace lockstep {

/// Where the higher ranks of a group connect to this one. Lets in only connections that have proven the group's key;
/// until then at most 64 bytes of each are read, none of them into a caller's memory. It closes with the object, so a
/// group that has formed listens nowhere.
///
/// Strangers cost no more than this: few connections may be unproven at once, each for a short time; the oldest makes
/// room for a new one once it had the time that an honest handshake takes. One thread at a time.
class PeerDoor {
 public:
  struct Limits {
    std::chrono::milliseconds handshake_timeout{5000};
    std::size_t max_unproven = 256;
    std::chrono::milliseconds min_unproven_age{100};  ///< before it makes room for another
  };
  struct Guest {
    PeerConnectionName name;
    PeerStream stream;
  };

  /// @throws Error  if the address cannot be bound
  PeerDoor(const SocketAddress& address, std::string key, int rank, Deadline deadline, const Limits& limits);
  PeerDoor(const SocketAddress& address, std::string key, int rank, Deadline deadline)
      : PeerDoor(address, std::move(key), rank, deadline, Limits()) {}

  const SocketAddress& address() const { return listener_.address; }
  /// Can be polled for reading: then `serve` has something to do. Apart from that, call `serve` about every
  /// `min_unproven_age`.
  int fd() const { return poller_.fd(); }
  /// Takes what has arrived, without waiting. @return  connections that have proven the key since the last call
  std::vector<Guest> serve();
  /// Connections that sent something and ended, were refused, or took too long.
  std::size_t turned_away() const { return turned_away_; }
  /// The address of the last of them; empty if there was none.
  const std::string& last_turned_away() const { return last_turned_away_; }

 private:
  struct Unproven {
    std::uint64_t id;
    UniqueFd fd;
    std::string address;
    AcceptorHandshake handshake;
    Deadline::Clock::time_point since;
    bool spoke = false;
  };
  enum class Progress { Waits, Proven, Ended };

  static Guest guest_of(Unproven& proven);
  void accept_all();
  bool make_room();
  void pause(bool pauses);
  Progress advance(Unproven& unproven);
  void turn_away(std::list<Unproven>::iterator unproven);

  const Limits limits_;
  const std::string key_;
  const int rank_;
  Listener listener_;
  SocketPoller poller_;
  std::list<Unproven> unproven_;  // oldest first
  std::uint64_t next_id_ = 1;
  bool accepting_ = true;
  bool warned_about_files_ = false;
  std::size_t turned_away_ = 0;
  std::string last_turned_away_;
};

}  // namespace lockstep
