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

/// Why a message did not arrive.
class MeshError : public std::runtime_error {
 public:
  enum class Kind {
    Timeout,  ///< a guard's deadline passed
    Lost,     ///< the other side ended connections: `peers()`
    Broken,   ///< `Mesh::break_connections` was called here
    Part,     ///< a part of this group failed, as described by the text
    Failed,   ///< the engine's library failed here, as described by the text; with `peers()` it says that it lost some
              ///< of them. If no rank is known to be lost, that is all there is to know
  };
  MeshError(Kind kind, const std::string& text, std::vector<int> peers = {}, std::string fix = {})
      : std::runtime_error(text), kind_(kind), peers_(std::move(peers)), fix_(std::move(fix)) {}
  Kind kind() const { return kind_; }
  const std::vector<int>& peers() const { return peers_; }
  const std::string& fix() const { return fix_; }  ///< what to do; only with Failed

 private:
  Kind kind_;
  std::vector<int> peers_;
  std::string fix_;
};

/// Memory from which messages are sent and into which they are received. Several sends and receives may be in progress
/// at once. One thread at a time. Errors are MeshErrors. Once this object is destroyed, the memory is no longer
/// accessed.
class MeshBuffer {
 public:
  virtual ~MeshBuffer() = default;
  /// Messages match by sender, receiver and slot, in order. Both sides must agree on `bytes`, or the underlying library
  /// may end the process, so callers include in the slot everything on which ranks must agree.
  virtual void send(int to, std::uint64_t slot, std::size_t offset, std::size_t bytes) = 0;
  virtual void recv(int from, std::uint64_t slot, std::size_t offset, std::size_t bytes) = 0;
  /// Returns when one more send (receive) of this buffer has ended. Receives from one rank end in order.
  virtual void wait_sent() = 0;
  virtual void wait_received() = 0;
};

/// Connections of one rank to all others of its group, over a library's messages: the part of Gloo or MPI that an
/// engine uses.
///
/// This header does not include LibTorch, because an implementation may be in a separate module (see
/// gloo/gloo_mesh_loader.cpp).
class Mesh : public Connections {
 public:
  /// The address that `peer` needs to connect to this rank.
  virtual std::string address_for(int peer) = 0;
  /// Every rank calls it for every other, in ascending order. `break_connections` ends the wait.
  virtual void connect(int peer, const std::string& address) = 0;
  virtual std::unique_ptr<MeshBuffer> buffer(void* data, std::size_t bytes) = 0;
  /// Whether posted messages travel while none of our threads waits for them.
  virtual bool sends_unattended() const { return false; }

  /// Packets: small messages of at most `packet_bytes()`, a multiple of 64, that are sent at once, whether the other
  /// side waits for them or not. In one operation at most `packets_at_once()` may be sent to a rank before its own
  /// packets are awaited. One thread at a time for all of them. `mark` and `bytes` need not agree: if they differ, the
  /// wait lasts until `break_connections`.
  virtual std::size_t packet_bytes() const = 0;
  virtual std::size_t packets_at_once() const = 0;
  virtual void send_packet(int to, std::uint64_t mark, const void* data, std::size_t bytes) = 0;
  /// The next packet from that rank; valid until `release_packet`.
  virtual const void* wait_packet(int from, std::uint64_t mark, std::size_t bytes) = 0;
  virtual void release_packet(int from) = 0;

  /// Breaks the connections a second or so after `deadline`, unless `release_guard` is called with its result before.
  virtual std::uint64_t guard(Deadline deadline) = 0;
  virtual void release_guard(std::uint64_t guard) = 0;
};

}  // namespace lockstep
