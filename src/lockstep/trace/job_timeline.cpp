#include "lockstep/trace/job_timeline.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace lockstep {
namespace {

std::int64_t arrival_of(const TraceEvent& event) {
  return event.kind == TraceKind::Bucket ? event.launch_ns : event.begin_ns;
}

bool comes_first(const TraceEvent& a, const TraceEvent& b) {
  return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
}

}  // namespace

JobTimeline::JobTimeline(std::vector<RankTrace> ranks) : ranks_(std::move(ranks)) {
  std::sort(ranks_.begin(), ranks_.end(), [](const RankTrace& a, const RankTrace& b) { return a.rank < b.rank; });
  start_ns_ = std::numeric_limits<std::int64_t>::max();
  std::map<Place, int> met;
  for (RankTrace& rank : ranks_) {
    for (TraceEvent& event : rank.record.events) {
      event.begin_ns += rank.clock.offset_ns;
      event.end_ns += rank.clock.offset_ns;
      if (event.launch_ns != 0) event.launch_ns += rank.clock.offset_ns;
      start_ns_ = std::min(start_ns_, event.begin_ns);
      if (!is_meeting(event)) continue;
      ++met[place_of(event)];
      Meeting& meeting = meetings_[place_of(event)];
      if (meeting.last_rank >= 0 && arrival_of(event) <= meeting.last_ns) continue;
      meeting = {rank.rank, arrival_of(event)};
    }
    std::sort(rank.record.events.begin(), rank.record.events.end(), comes_first);
  }
  for (const auto& [place, count] : met) {
    if (count == 1) meetings_.erase(place);
  }
  if (start_ns_ == std::numeric_limits<std::int64_t>::max()) start_ns_ = 0;
}

bool JobTimeline::is_meeting(const TraceEvent& event) {
  return event.kind == TraceKind::Bucket || event.kind == TraceKind::Collective;
}

JobTimeline::Place JobTimeline::place_of(const TraceEvent& event) {
  if (event.kind == TraceKind::Collective) return {1, event.group, event.sequence};
  return {0, static_cast<std::uint64_t>(event.step), static_cast<std::uint64_t>(event.bucket)};
}

const Meeting* JobTimeline::meeting_of(const TraceEvent& event) const {
  if (!is_meeting(event) && event.kind != TraceKind::Wait) return nullptr;
  const auto found = meetings_.find(place_of(event));
  return found == meetings_.end() ? nullptr : &found->second;
}

std::int64_t JobTimeline::waited_for_last_ns(int rank, const TraceEvent& event) const {
  const Meeting* meeting = meeting_of(event);
  if (meeting == nullptr || meeting->last_rank == rank || event.kind == TraceKind::Bucket) return 0;
  return std::max<std::int64_t>(0, std::min(event.end_ns, meeting->last_ns) - event.begin_ns);
}

}  // namespace lockstep
