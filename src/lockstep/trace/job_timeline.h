#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "lockstep/trace/rank_trace.h"

namespace lockstep {

/// Where the ranks of a group meet: in the exchange of a bucket, or in a blocking collective. What a rank waits there
/// before the last one arrives, it waits for that one.
struct Meeting {
  int last_rank = -1;
  std::int64_t last_ns = 0;  ///< when that rank arrived
};

/// All ranks' events in the time of rank 0's host, and who came last where.
class JobTimeline {
 public:
  explicit JobTimeline(std::vector<RankTrace> ranks);

  /// By rank; their events are in order of time, a longer one before those inside it.
  const std::vector<RankTrace>& ranks() const { return ranks_; }
  /// The beginning of the earliest event.
  std::int64_t start_ns() const { return start_ns_; }
  /// Where the event's rank met others; null if it met nobody there.
  const Meeting* meeting_of(const TraceEvent& event) const;
  /// How long the rank waited in `event` for the last rank, in nanoseconds; 0 if it was the last one itself.
  std::int64_t waited_for_last_ns(int rank, const TraceEvent& event) const;

 private:
  using Place = std::tuple<int, std::uint64_t, std::uint64_t>;  // kind; step and bucket, or group and number
  static bool is_meeting(const TraceEvent& event);
  static Place place_of(const TraceEvent& event);

  std::vector<RankTrace> ranks_;
  std::int64_t start_ns_ = 0;
  std::map<Place, Meeting> meetings_;
};

}  // namespace lockstep
