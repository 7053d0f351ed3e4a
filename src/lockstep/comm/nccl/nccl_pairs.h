#pragma once

#include <c10/cuda/CUDAStream.h>

#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "lockstep/comm/nccl/nccl_connections.h"
#include "lockstep/net/membership.h"

namespace lockstep {

/// The ranks of a pair.
constexpr int kSender = 0;
constexpr int kReceiver = 1;

/// Communicators for messages from one rank to another. Each direction and tag has its own, with its own stream, made
/// at the first message: NCCL runs the operations of one communicator one after the other, and a receive must not block
/// a send. Thread-safe.
class NcclPairs {
 public:
  NcclPairs(const Membership& membership, std::shared_ptr<NcclConnections> connections);

  struct Pair {
    std::shared_ptr<NcclHandle> handle;
    c10::cuda::CUDAStream stream;
  };
  /// The communicator for messages from `from` to `to`, one of which is this rank. Waits for the other side the first
  /// time.
  Pair get(int from, int to, int tag);

 private:
  std::shared_ptr<NcclHandle> connect(int from, int to, int tag);

  const Membership membership_;
  const std::shared_ptr<NcclConnections> connections_;
  std::mutex mutex_;
  std::map<std::tuple<int, int, int>, Pair> pairs_;  // by sender, receiver and tag
};

/// An id of NCCL, which the rank with `makes_it` stores under `key` for the others.
ncclUniqueId share_nccl_id(Store& store, const std::string& key, bool makes_it, const NcclConnections& connections);

}  // namespace lockstep
