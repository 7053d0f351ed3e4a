#pragma once

#include <memory>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/fused/fused_bucket.h"
#include "lockstep/parallel/fused/recovery/memory_hosts.h"

namespace lockstep {

/// Brings the sums of gradients that each rank has added up into the memory of every other host, once each, so that
/// every host can make the whole update, whatever becomes of the others.
class SumExchange {
 public:
  /// What is given must outlive this object. The plan's regions say which rank adds up what.
  SumExchange(const MemoryHosts& hosts, const UpdatePlan& plan, const std::vector<FusedBucket>& buckets,
              Communicator& communicator);

  /// This rank's part of the bucket's sums is in the memory of its host: sends it, and receives what other hosts' ranks
  /// send this rank. Does not wait. All ranks call it for the same buckets, in one order.
  void start(std::size_t bucket);
  /// Returns when all that was started has arrived here.
  void finish();

 private:
  const UpdatePlan& plan_;
  const std::vector<FusedBucket>& buckets_;
  Communicator& communicator_;
  std::vector<int> receivers_;  // of this rank's part: one on each other host
  std::vector<int> senders_;    // whose parts this rank receives
  std::vector<std::shared_ptr<Work>> pending_;
};

}  // namespace lockstep
