#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>

#include "lockstep/comm/nccl/nccl_connections.h"
#include "lockstep/comm/nccl/nccl_stream.h"
#include "lockstep/detail/net/membership.h"

namespace lockstep {

/// The ranks of a pair.
constexpr int kSender = 0;
constexpr int kReceiver = 1;

/// Communicators for messages from one rank to another. Each direction and tag has its own, with its own stream, made
/// at the first message: NCCL runs the operations of one communicator one after the other, and a receive must not block
/// a send, nor a message of another tag. Thread-safe.
class NcclPairs {
 public:
  /// Tags between two ranks in one direction: each communicator takes tens of MB of both devices.
  static constexpr std::size_t kMostTags = 16;

  NcclPairs(const Membership& membership, std::shared_ptr<NcclConnections> connections);

  struct Pair {
    std::shared_ptr<NcclHandle> handle;
    std::shared_ptr<NcclStream> stream;
  };
  /// Notes that such messages will be sent. Before `get`.
  /// @throws Error  if the two ranks have used too many tags
  void require(int from, int to, int tag);
  /// The communicator for messages from `from` to `to`, one of which is this rank. Waits for the other side the first
  /// time.
  Pair get(int from, int to, int tag);

 private:
  Pair connect(int from, int to, int tag);

  const Membership membership_;
  const std::shared_ptr<NcclConnections> connections_;
  std::mutex mutex_;
  std::map<std::tuple<int, int, int>, Pair> pairs_;    // by sender, receiver and tag
  std::map<std::pair<int, int>, std::set<int>> tags_;  // by sender and receiver
};

/// An id of NCCL, which the rank with `makes_it` stores under `key` for the others.
ncclUniqueId share_nccl_id(Store& store, const std::string& key, bool makes_it, const NcclConnections& connections);

}  // namespace lockstep
