#include "lockstep/parallel/update/owned_sums.h"

namespace lockstep {
namespace {

bool divides_by_active_ranks(const UpdateContext& context) { return context.backward.join.divides_by_active_ranks(); }

}  // namespace

ReduceOp reduce_op_of(const UpdateContext& context) {
  return divides_by_active_ranks(context) ? ReduceOp::Sum : ReduceOp::Avg;
}

OwnedGradients owned_sum(const UpdateContext& context, std::size_t bucket) {
  OwnedGradients part;
  part.source = context.memory->gradients(bucket);
  const bool is_averaged =
      context.plan.gives_buckets_back || context.memory->sums_are_final() ||
      (context.plan.sources == UpdatePlan::Sources::Messages && reduce_op_of(context) == ReduceOp::Avg);
  const int ranks =
      divides_by_active_ranks(context) ? context.agreement.active_ranks() : context.communicator->world_size();
  part.source.divisor = is_averaged ? 1 : ranks;
  part.begin = static_cast<std::size_t>(context.buckets[bucket].own.begin);
  part.end = static_cast<std::size_t>(context.buckets[bucket].own.end);
  return part;
}

std::vector<OwnedGradients> owned_sums(const UpdateContext& context) {
  std::vector<OwnedGradients> parts;
  for (std::size_t i = 0; i < context.buckets.size(); ++i) parts.push_back(owned_sum(context, i));
  return parts;
}

}  // namespace lockstep
