#pragma once

namespace lockstep {

/// What the ranks share out, under FSDP1's names. FSDP2 says the last two by a mesh of two dimensions.
enum class ShardingStrategy {
  FullShard,        ///< weights, gradients and the optimizer's state, over all ranks (FuseOptions::stage 3)
  ShardGradOp,      ///< gradients and state over all ranks (stage 2)
  HybridShard,      ///< a replica of the weights on each host, for all of its ranks; gradients and state over all ranks
  HybridShardZero2  ///< the same: where ranks share a copy, no weight is gathered before forward or backward
};

}  // namespace lockstep
