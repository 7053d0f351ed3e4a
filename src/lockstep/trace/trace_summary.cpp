#include "lockstep/trace/trace_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "lockstep/base/text/printable.h"

namespace lockstep {
namespace {

struct Interval {
  std::int64_t begin = 0, end = 0;
};
using Intervals = std::vector<Interval>;

// The same points of time, without overlaps, in order.
Intervals united(Intervals all) {
  std::sort(all.begin(), all.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  Intervals result;
  for (const Interval& each : all) {
    if (!result.empty() && each.begin <= result.back().end) {
      result.back().end = std::max(result.back().end, each.end);
    } else if (each.begin < each.end) {
      result.push_back(each);
    }
  }
  return result;
}

std::int64_t length(const Intervals& united_ones) {
  std::int64_t sum = 0;
  for (const Interval& each : united_ones) sum += each.end - each.begin;
  return sum;
}

std::int64_t common_length(const Intervals& a, const Intervals& b) {
  std::int64_t sum = 0;
  for (const Interval& x : a) {
    for (const Interval& y : b) sum += std::max<std::int64_t>(0, std::min(x.end, y.end) - std::max(x.begin, y.begin));
  }
  return sum;
}

// One rank's times over all steps, in nanoseconds.
struct Totals {
  std::int64_t of_kind[kTraceKinds] = {};
  Intervals travels, waits;
  std::vector<std::int64_t> for_rank;  // by rank: how long this one waited for it
};

Totals totals_of(const JobTimeline& timeline, const RankTrace& rank, std::size_t ranks) {
  Totals totals;
  totals.for_rank.resize(ranks);
  for (const TraceEvent& event : rank.record.events) {
    totals.of_kind[static_cast<int>(event.kind)] += event.end_ns - event.begin_ns;
    const Meeting* meeting = timeline.meeting_of(event);
    if (event.kind == TraceKind::Bucket) {
      const std::int64_t all_there = meeting == nullptr ? event.launch_ns : std::max(event.launch_ns, meeting->last_ns);
      totals.travels.push_back({all_there, event.end_ns});
    } else if (event.kind == TraceKind::Wait || event.kind == TraceKind::Collective) {
      totals.waits.push_back({event.begin_ns, event.end_ns});
    }
    if (meeting == nullptr || static_cast<std::size_t>(meeting->last_rank) >= ranks) continue;
    totals.for_rank[static_cast<std::size_t>(meeting->last_rank)] += timeline.waited_for_last_ns(rank.rank, event);
  }
  totals.travels = united(std::move(totals.travels));
  totals.waits = united(std::move(totals.waits));
  return totals;
}

RankSummary summary_of(const RankTrace& rank, const Totals& totals, double steps) {
  const auto ms = [&](std::int64_t ns) { return static_cast<double>(ns) / 1e6 / steps; };
  const auto ms_of = [&](TraceKind kind) { return ms(totals.of_kind[static_cast<int>(kind)]); };
  RankSummary summary;
  summary.rank = rank.rank;
  summary.host = rank.host;
  summary.data_ms = ms_of(TraceKind::Data);
  summary.forward_ms = ms_of(TraceKind::Forward);
  summary.backward_ms = ms_of(TraceKind::Backward);
  summary.update_ms = ms_of(TraceKind::Update);
  summary.waited_ms = ms(length(totals.waits));
  const std::int64_t travelled = length(totals.travels);
  if (travelled > 0) {
    summary.hidden_share =
        1 - static_cast<double>(common_length(totals.travels, totals.waits)) / static_cast<double>(travelled);
  }
  return summary;
}

}  // namespace

TraceSummary summarise(const JobTimeline& timeline) {
  TraceSummary summary;
  std::size_t ranks = 0;
  std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = 0;
  for (const RankTrace& rank : timeline.ranks()) {
    ranks = std::max(ranks, static_cast<std::size_t>(rank.rank) + 1);
    for (const TraceEvent& event : rank.record.events) {
      first = std::min<std::int64_t>(first, event.step);
      last = std::max<std::int64_t>(last, event.step);
    }
  }
  if (last == 0) return summary;
  summary.first_step = first;
  summary.last_step = last;
  const auto steps = static_cast<double>(last - first + 1);
  std::vector<std::int64_t> awaited(ranks);
  for (const RankTrace& rank : timeline.ranks()) {
    const Totals totals = totals_of(timeline, rank, ranks);
    for (std::size_t other = 0; other < ranks; ++other) awaited[other] += totals.for_rank[other];
    summary.ranks.push_back(summary_of(rank, totals, steps));
  }
  const double others = std::max<double>(1, static_cast<double>(summary.ranks.size()) - 1);
  double most = 0;
  for (RankSummary& rank : summary.ranks) {
    rank.awaited_ms = static_cast<double>(awaited[static_cast<std::size_t>(rank.rank)]) / 1e6 / steps / others;
    if (rank.awaited_ms <= most) continue;
    most = rank.awaited_ms;
    summary.most_awaited = rank.rank;
  }
  return summary;
}

std::vector<std::string> TraceSummary::lines() const {
  if (last_step == 0) return {"no step of the window was reached"};
  std::vector<std::string> result{fmt::format("steps {} to {}, ms of a step:", first_step, last_step),
                                  fmt::format("{:>6} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8}  {}", "rank", "data",
                                              "forward", "backward", "update", "waited", "awaited", "hidden", "host")};
  for (const RankSummary& rank : ranks) {
    const std::string hidden = rank.hidden_share ? fmt::format("{:.1f} %", 100 * *rank.hidden_share) : "-";
    result.push_back(fmt::format("{:>6} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>8}  {}", rank.rank,
                                 rank.data_ms, rank.forward_ms, rank.backward_ms, rank.update_ms, rank.waited_ms,
                                 rank.awaited_ms, hidden, printable(rank.host)));
  }
  for (const RankSummary& rank : ranks) {
    if (rank.rank != most_awaited) continue;
    result.push_back(fmt::format("rank {} was waited for most: {:.3f} ms of each step by each of the others", rank.rank,
                                 rank.awaited_ms));
  }
  return result;
}

}  // namespace lockstep
