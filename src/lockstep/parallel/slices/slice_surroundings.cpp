#include "lockstep/parallel/slices/slice_surroundings.h"

#include <torch/csrc/jit/runtime/graph_executor.h>

#include "lockstep/base/random/mix_bits.h"

namespace lockstep {

SliceSurroundings::Scope::Scope(std::vector<ReplicaRandom>& random, std::uint64_t seed)
    : fused_scripts_before_(torch::jit::getGraphExecutorOptimize()), seed_(random, 1, seed) {
  torch::jit::setGraphExecutorOptimize(false);
  seed_.draw();
  guard_.emplace(random.front(), seed_, true);
}

SliceSurroundings::Scope::~Scope() {
  guard_.reset();
  torch::jit::setGraphExecutorOptimize(fused_scripts_before_);
}

SliceSurroundings::Scope SliceSurroundings::enter(std::uint64_t update, std::int64_t slice) {
  const std::uint64_t of_update = mix_bits(update + 0x9e3779b97f4a7c15ULL);
  return {random_, mix_bits(of_update + static_cast<std::uint64_t>(slice))};
}

}  // namespace lockstep
