#pragma once

#include <gloo/transport/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

namespace lockstep {

/// For waits that only a failure ends. Not the largest duration, because it is added to the clock.
constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365);

/// Notices the end of connections: on each of them waits a receive for a message that no rank sends, and Gloo ends it
/// with the connection.
///
/// Includes Gloo, so only gloo_mesh.cpp may include this header. One thread at a time.
class ConnectionProbes {
 public:
  ConnectionProbes(gloo::transport::Context& context, int rank, int size) : rank_(rank) {
    for (int peer = 0; peer < size; ++peer) probes_.push_back(context.createUnboundBuffer(nullptr, 0));
  }

  /// Call it once the connection to `peer` is there.
  void watch(int peer) { probes_[static_cast<std::size_t>(peer)]->recv(peer, kSlot, 0, 0); }

  /// Looks which connections have ended, until the first look that finds some; later ones return the same peers.
  const std::vector<int>& look() {
    if (!lost_.empty()) return lost_;
    for (int peer = 0; peer < static_cast<int>(probes_.size()); ++peer) {
      if (peer != rank_ && has_ended(*probes_[static_cast<std::size_t>(peer)])) lost_.push_back(peer);
    }
    return lost_;
  }
  const std::vector<int>& lost() const { return lost_; }

 private:
  static constexpr std::uint64_t kSlot = ~std::uint64_t{0};

  // An aborted wait returns at once, or throws if there is a failure.
  static bool has_ended(gloo::transport::UnboundBuffer& probe) {
    try {
      probe.abortWaitRecv();
      probe.waitRecv(nullptr, kForever);
      return false;
    } catch (const std::exception&) {
      return true;
    }
  }

  const int rank_;
  std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> probes_;  // by peer; the own one is not used
  std::vector<int> lost_;
};

}  // namespace lockstep
