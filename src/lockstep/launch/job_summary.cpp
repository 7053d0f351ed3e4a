#include "lockstep/launch/job_summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/environment.h"
#include "lockstep/base/text/count_of.h"

namespace lockstep {
namespace {

std::string ranks_text(const LaunchPlan& plan, const Agreement& agreement) {
  if (agreement.nodes == 1) return count_of(plan.local_ranks, "rank") + " on this host";
  const int last = agreement.first_rank + plan.local_ranks - 1;
  const std::string ranks = plan.local_ranks == 1 ? fmt::format("rank {}", agreement.first_rank)
                                                  : fmt::format("ranks {} to {}", agreement.first_rank, last);
  return fmt::format("{} of {} on this host, node {} of {}", ranks, agreement.world_size, agreement.node_rank,
                     agreement.nodes);
}

std::string threads_text(const LaunchPlan& plan, const NodeCores& node, const std::string& users_threads) {
  const std::string each = plan.local_ranks == 1 ? "it" : "each";
  const std::string threads = users_threads.empty() ? count_of(std::max(1, node.threads / plan.local_ranks), "thread")
                                                    : "OMP_NUM_THREADS=" + users_threads + " threads, as you set it";
  const auto shares = share_cores(plan.affinity, node, plan.local_ranks);
  const bool is_bound = !shares.empty() && !shares.front().empty();
  const std::string cores =
      is_bound ? fmt::format("on {} of its own", count_of(static_cast<std::int64_t>(shares.front().size()), "core"))
               : fmt::format("on any of {}", count_of(node.available, "core"));
  return fmt::format("{} computes with {}, {}", each, threads, cores);
}

}  // namespace

std::string summary_of(const LaunchPlan& plan, const Agreement& agreement, const NodeCores& node,
                       const std::string& users_threads) {
  std::string text = ranks_text(plan, agreement) + "; " + threads_text(plan, node, users_threads);
  if (agreement.nodes > 1) {
    text += "; between hosts they exchange through " + env_string("LOCKSTEP_INTER_HOST_ENGINE").value_or("tcp") +
            ", inside a host through shared memory, unless the program chooses another engine";
  } else if (plan.local_ranks > 1) {
    text += "; they exchange through shared memory, unless the program chooses another engine";
  }
  if (const auto precision = env_string("ACCELERATE_MIXED_PRECISION")) text += "; mixed precision: " + *precision;
  if (plan.max_restarts > 0) text += "; after a failure up to " + count_of(plan.max_restarts, "restart");
  return text;
}

}  // namespace lockstep
