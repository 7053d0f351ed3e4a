#include "lockstep/parallel/update/rank_norm.h"

#include <cstdint>

#include "lockstep/optim/update/gradient_memory.h"
#include "lockstep/parallel/fused/norm_over_ranks.h"
#include "lockstep/parallel/update/owned_sums.h"
#include "lockstep/parallel/update/update_lists.h"

namespace lockstep {

// Also of gradients that are equal on all ranks already; one rank counts these.
double RankNorm::of_all() {
  const GradientMemory others(other_parameters(context_));
  const bool counts_others =
      context_.communicator->rank() == context_.agreement.lowest_active_rank() && others.count() > 0;
  return norm_over_ranks(*context_.communicator, *context_.memory, owned_sums(context_),
                         counts_others ? others.norm(2) : 0, 2);
}

double RankNorm::of(const GradientSelection& selection, const std::vector<std::size_t>&, double p) {
  // Known on every rank since the agreement.
  if (p == 0) return selection.count_of(context_.agreement.contributed());
  // Zeros change only norms of a negative order.
  const std::vector<std::uint8_t> contributed = p < 0 ? context_.agreement.contributed() : std::vector<std::uint8_t>();
  std::vector<OwnedGradients> parts;
  for (std::size_t b = 0; b < context_.buckets.size(); ++b) {
    const auto selected = selection.cut(owned_sum(context_, b), context_.buckets[b], context_.gradients, contributed);
    parts.insert(parts.end(), selected.begin(), selected.end());
  }
  return norm_over_ranks(*context_.communicator, *context_.memory, parts, 0, p);
}

}  // namespace lockstep
