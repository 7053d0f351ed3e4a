#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/trace/job_timeline.h"

namespace lockstep {

/// What one rank did in a step, in milliseconds, as the mean over the traced steps.
struct RankSummary {
  int rank = 0;
  std::string host;
  double data_ms = 0;
  double forward_ms = 0;
  double backward_ms = 0;  ///< with the waits for buckets
  double update_ms = 0;
  double waited_ms = 0;   ///< the thread waited for buckets, or was in a blocking collective
  double awaited_ms = 0;  ///< the other ranks waited for this one, on average
  /// Share of the time in which buckets travelled and the thread did not wait; nothing: none travelled.
  std::optional<double> hidden_share;
};

struct TraceSummary {
  std::int64_t first_step = 0, last_step = 0;  ///< that have events; 0: no step has
  std::vector<RankSummary> ranks;
  int most_awaited = -1;  ///< the rank; -1: nobody waited

  /// A line for each rank, and one about the rank that was waited for most.
  std::vector<std::string> lines() const;
};

TraceSummary summarise(const JobTimeline& timeline);

}  // namespace lockstep
