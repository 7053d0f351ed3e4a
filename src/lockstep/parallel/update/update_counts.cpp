#include "lockstep/parallel/update/update_counts.h"

#include <cstdint>

namespace lockstep {

void count_reduction(UpdateContext& context) {
  StepStatistics& statistics = context.backward.statistics;
  const double waited_s = context.own_gradients->take_waited_s();
  statistics.waited_s += waited_s;
  statistics.waited_for_slot_s += waited_s;
  for (const FusedBucket& bucket : context.buckets) {
    statistics.bytes += static_cast<std::int64_t>(bucket.gradients.nbytes());
    ++statistics.buckets;
  }
}

void count_update(UpdateContext& context, double waited_s, bool was_reduced) {
  StepStatistics& statistics = context.backward.statistics;
  statistics.unused_parameters += context.own_gradients->end_update(context.agreement.contributed());
  statistics.waited_s += waited_s;
  if (was_reduced) count_reduction(context);
}

}  // namespace lockstep
