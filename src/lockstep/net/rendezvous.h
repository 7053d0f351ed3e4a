#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "lockstep/detail/net/membership.h"

namespace lockstep {

struct RendezvousOptions {
  /// How the ranks find each other:
  ///   "env://"            RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun and `lockstep run` set them
  ///   "tcp://host:port"   rank 0 listens there; "?rank=0&world_size=2" may follow
  ///   "file:///path"      a file that all ranks can see, on one host or on a file system with locks
  /// If LOCKSTEP_STORE names a store (`lockstep run` sets it), env:// uses that store, and no rank listens.
  std::string init_method = "env://";
  std::optional<int> world_size;  ///< takes precedence over the environment and the init method
  std::optional<int> rank;        ///< takes precedence over the environment and the init method
  /// Bound for joining, and `Membership::timeout` of the group.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// Bound for joining only, and `Membership::join_timeout`, if it shall differ from `timeout`.
  std::optional<std::chrono::milliseconds> join_timeout;
  /// Called once, before the wait for the other ranks, with "Awaiting all nodes to join."
  std::function<void(const std::string&)> on_awaiting;
};

/// Meets the other ranks of the job. Returns the group's members, with a store that all of them share.
///
/// Rank 0 serves that store in its own process, unless LOCKSTEP_STORE names another one. The store lives as long as
/// rank 0's `Membership::store`. Call `membership.store->finish(deadline)` at the end of each rank: then rank 0
/// outlives the others' last calls, and no rank that ends is taken for lost. The secret is `secret_from_environment()`;
/// without one, only Unix sockets and loopback addresses are used. Methods, variables and security:
/// docs/reference/store.md. From now on failures of this process are recorded as failures of its rank
/// (base/failure_record.h).
///
/// @throws Error  naming the variable that is missing or wrong, the address that is busy, cannot be resolved or
/// refuses, or both processes that claim one rank or differ in world_size
/// @throws TimeoutError  naming the ranks that did not arrive
Membership rendezvous(const RendezvousOptions& options);

}  // namespace lockstep
