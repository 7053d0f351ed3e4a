#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "lockstep/net/membership.h"

namespace lockstep {

struct RendezvousOptions {
  /// How the ranks find each other:
  ///   "env://"            RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun and `lockstep run` set them
  ///   "tcp://host:port"   rank 0 listens there; "?rank=0&world_size=2" may follow
  ///   "file:///path"      a file that all ranks can see, on one host or on a file system with locks
  /// Where LOCKSTEP_STORE names a store (`lockstep run` sets it), env:// uses that one and nothing else listens.
  std::string init_method = "env://";
  std::optional<int> world_size;  ///< wins over the environment and the init method
  std::optional<int> rank;        ///< wins over the environment and the init method
  /// Bound of joining, and `Membership::timeout` of the group.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// Bound of joining alone, and `Membership::join_timeout`, where it should differ.
  std::optional<std::chrono::milliseconds> join_timeout;
  /// Called once, before the wait for the other ranks, with "Awaiting all nodes to join."
  std::function<void(const std::string&)> on_awaiting;
};

/// Meets the other ranks of the job and returns who they are, with a store that all share.
///
/// Rank 0 serves that store in its own process, unless LOCKSTEP_STORE names another. It lives as long as rank 0's
/// `Membership::store`; call `membership.store->finish(deadline)` at the end of each rank, so that rank 0 outlives the
/// others' last calls, and nobody takes an end for a loss. The secret is that of `secret_from_environment()`; without
/// one only Unix sockets and loopback addresses are used. Methods, variables and security: docs/reference/store.md.
///
/// @throws Error         naming the variable that is missing or wrong; the address that is busy, unresolvable or
/// refuses;
///                       both processes that claim one rank, or differ in world_size
/// @throws TimeoutError  naming the ranks that did not come
Membership rendezvous(const RendezvousOptions& options);

}  // namespace lockstep
