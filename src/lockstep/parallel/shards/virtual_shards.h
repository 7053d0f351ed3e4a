#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/detail/tensor/module_tensors.h"
#include "lockstep/parallel/reducer/reducer.h"
#include "lockstep/parallel/shards/partial_sums.h"
#include "lockstep/parallel/shards/shard_buffers.h"
#include "lockstep/parallel/shards/shard_plan.h"
#include "lockstep/parallel/shards/shard_surroundings.h"
#include "lockstep/parallel/shards/term_exchange.h"

namespace lockstep {

/// Runs the shards of this rank one after the other, and adds their gradients in the order of the shard tree.
class VirtualShards {
 public:
  /// Collective. What is given must outlive this object. @param buffers  empty: the module has none
  VirtualShards(std::int64_t shards, Reducer& reducer, Communicator& communicator,
                std::function<std::vector<NamedTensor>()> buffers);

  const ShardPlan& plan() const { return plan_; }
  const PartialSums& sums() const { return sums_; }
  std::uint64_t update() const { return update_; }  ///< whose gradients these sums are
  bool is_in_shard() const { return is_in_shard_; }
  void note_forward() { had_forward_ = true; }

  /// Calls `body` for each shard of this rank. Then the gradients are averages over all shards, or, of buckets that the
  /// reducer has handed over, this rank's terms. Collective.
  /// @param update    identifies the update: see ShardSurroundings. Equal on all ranks, which compare it here or, of
  /// buckets that are handed over, in their update; with buffers always here
  /// @param are_zero  the buckets' gradients are known to be zero
  void run(std::uint64_t update, bool are_zero, const std::function<void(std::int64_t)>& body);

 private:
  void run_shard(std::uint64_t update, std::int64_t shard, const std::function<void(std::int64_t)>& body);
  void average();

  ShardPlan plan_;
  Reducer& reducer_;
  Communicator& communicator_;
  ShardSurroundings surroundings_;
  PartialSums sums_;
  std::optional<ShardBuffers> buffers_;
  std::vector<TermExchange> exchanges_;    // by bucket; made when they are first needed
  std::vector<std::uint8_t> contributed_;  // by parameter: some shard of this rank has a gradient
  std::uint64_t update_ = 0;
  bool is_in_shard_ = false;
  bool had_forward_ = false;
};

}  // namespace lockstep
