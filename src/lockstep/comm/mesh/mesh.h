#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/comm/mesh/connections.h"

namespace lockstep {

/// Why a message did not get through.
class MeshError : public std::runtime_error {
 public:
  enum class Kind {
    kTimeout,  ///< a guard's deadline passed
    kLost,     ///< connections ended from the other side: `peers()`
    kBroken,   ///< `Mesh::break_connections` was called here
    kPart,     ///< a group that this one is made of failed, as the text says
  };
  MeshError(Kind kind, const std::string& text, std::vector<int> peers = {})
      : std::runtime_error(text), kind_(kind), peers_(std::move(peers)) {}
  Kind kind() const { return kind_; }
  const std::vector<int>& peers() const { return peers_; }

 private:
  Kind kind_;
  std::vector<int> peers_;
};

/// Memory that messages leave from and arrive in. Several sends and receives may be under way at once. One thread at a
/// time. Errors are MeshErrors; once this object is gone, nobody touches the memory any more.
class MeshBuffer {
 public:
  virtual ~MeshBuffer() = default;
  /// Messages meet by sender, receiver and slot, in order. The two sides of one must agree on `bytes`, or the process
  /// may be ended by the library below: so callers put all that ranks must agree on into the slot.
  virtual void send(int to, std::uint64_t slot, std::size_t offset, std::size_t bytes) = 0;
  virtual void recv(int from, std::uint64_t slot, std::size_t offset, std::size_t bytes) = 0;
  /// Returns when one more send (receive) of this buffer has ended. Receives from one rank end in order.
  virtual void wait_sent() = 0;
  virtual void wait_received() = 0;
};

/// Connections of one rank to all others of its group, over some library's messages: what of Gloo or MPI an engine
/// uses.
///
/// This header is free of LibTorch, because an implementation may live in a module apart (see
/// gloo/gloo_mesh_loader.cpp).
class Mesh : public Connections {
 public:
  /// What `peer` needs to connect to this rank.
  virtual std::string address_for(int peer) = 0;
  /// Every rank calls it for every other, in ascending order. `break_connections` ends the wait.
  virtual void connect(int peer, const std::string& address) = 0;
  virtual std::unique_ptr<MeshBuffer> buffer(void* data, std::size_t bytes) = 0;
  /// Whether messages that were posted travel while no thread of ours waits for them.
  virtual bool sends_unattended() const { return false; }

  /// Packets: small messages that leave at once, whether the other side waits for them or not, of at most
  /// `packet_bytes()`, a multiple of 64. In one operation at most `packets_at_once()` may be sent to a rank before
  /// those that it sends are waited for. One thread at a time for all of them. `mark` and `bytes` need not agree: where
  /// they do not, the wait ends with `break_connections`.
  virtual std::size_t packet_bytes() const = 0;
  virtual std::size_t packets_at_once() const = 0;
  virtual void send_packet(int to, std::uint64_t mark, const void* data, std::size_t bytes) = 0;
  /// The next packet from this rank; valid until `release_packet`.
  virtual const void* wait_packet(int from, std::uint64_t mark, std::size_t bytes) = 0;
  virtual void release_packet(int from) = 0;

  /// Breaks the connections a second or so after `deadline`, unless `release_guard` is called with its result before.
  virtual std::uint64_t guard(Deadline deadline) = 0;
  virtual void release_guard(std::uint64_t guard) = 0;
};

}  // namespace lockstep
