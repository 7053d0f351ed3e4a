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

/// Communicators for messages from one rank to one other. Each direction and tag has its own, with a stream of its own,
/// made at the first message: NCCL does the operations of one communicator one after the other, and a receive must not
/// hold up a send. Thread-safe.
class NcclPairs {
 public:
  NcclPairs(const Membership& membership, std::shared_ptr<NcclConnections> connections);

  struct Pair {
    std::shared_ptr<NcclHandle> handle;
    c10::cuda::CUDAStream stream;
  };
  /// That of messages from one rank to the other, one of which is this one. Waits for the other side the first time.
  Pair get(int from, int to, int tag);

 private:
  std::shared_ptr<NcclHandle> connect(int from, int to, int tag);

  const Membership membership_;
  const std::shared_ptr<NcclConnections> connections_;
  std::mutex mutex_;
  std::map<std::tuple<int, int, int>, Pair> pairs_;  // by sender, receiver and tag
};

/// An id of NCCL's, which the one who makes it leaves in the store under `key` for the others.
ncclUniqueId share_nccl_id(Store& store, const std::string& key, bool makes_it, const NcclConnections& connections);

}  // namespace lockstep
