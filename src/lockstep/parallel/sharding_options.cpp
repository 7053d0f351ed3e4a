#include "lockstep/detail/parallel/sharding_options.h"

namespace lockstep {

const char* to_string(ShardingStrategy strategy) {
  switch (strategy) {
    case ShardingStrategy::ShardGradOp:
      return "shard_grad_op";
    case ShardingStrategy::HybridShard:
      return "hybrid_shard";
    case ShardingStrategy::HybridShardZero2:
      return "hybrid_shard_zero2";
    case ShardingStrategy::NoShard:
      return "no_shard";
    case ShardingStrategy::FullShard:
      break;
  }
  return "full_shard";
}

int stage_of(ShardingStrategy strategy) {
  if (strategy == ShardingStrategy::NoShard) return 1;
  return strategy == ShardingStrategy::FullShard ? 3 : 2;
}

bool is_hybrid(ShardingStrategy strategy) {
  return strategy == ShardingStrategy::HybridShard || strategy == ShardingStrategy::HybridShardZero2;
}

}  // namespace lockstep
