#include "lockstep/parallel/shards/shard_surroundings.h"

#include <ATen/Parallel.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include "lockstep/base/mix_bits.h"
#include "lockstep/base/processor/compute_threads.h"

namespace lockstep {

// OpenBLAS counts threads for the whole process, in which other ranks may compute at the same time, so this stays.
ShardSurroundings::ShardSurroundings() { set_blas_threads(1); }

ShardSurroundings::Scope::Scope(std::vector<ReplicaRandom>& random, std::uint64_t seed)
    : threads_before_(at::get_num_threads()),
      fused_scripts_before_(torch::jit::getGraphExecutorOptimize()),
      seed_(random, 1, seed) {
  torch::jit::setGraphExecutorOptimize(false);
  if (threads_before_ != 1) at::set_num_threads(1);
  seed_.draw();
  guard_.emplace(random.front(), seed_, true);
}

ShardSurroundings::Scope::~Scope() {
  guard_.reset();
  torch::jit::setGraphExecutorOptimize(fused_scripts_before_);
  if (threads_before_ != 1) at::set_num_threads(threads_before_);
}

ShardSurroundings::Scope ShardSurroundings::enter(std::uint64_t update, std::int64_t shard) {
  const std::uint64_t of_update = mix_bits(update + 0x9e3779b97f4a7c15ULL);
  return {random_, mix_bits(of_update + static_cast<std::uint64_t>(shard))};
}

}  // namespace lockstep
