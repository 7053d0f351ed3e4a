#include "lockstep/trace/trace_summary.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/trace/chrome_trace.h"

namespace lockstep {
namespace {

constexpr std::int64_t kMs = 1'000'000;

TraceEvent event_of(TraceKind kind, std::int64_t begin_ms, std::int64_t end_ms, int bucket = -1,
                    std::int64_t launch_ms = 0) {
  TraceEvent event;
  event.kind = kind;
  event.step = 1;
  event.begin_ns = begin_ms * kMs;
  event.end_ns = end_ms * kMs;
  event.launch_ns = launch_ms * kMs;
  event.bucket = bucket;
  return event;
}

// Rank 0 is ready at 10 ms and waits from 20 ms on; rank 1 launches at 30 ms by rank 0's clock; both are done at 36 ms.
// Rank 1's clock is 1000 ms behind.
JobTimeline a_timeline() {
  RankTrace first, second;
  first.host = "a";
  first.record.events = {event_of(TraceKind::Forward, 0, 5), event_of(TraceKind::Backward, 5, 36),
                         event_of(TraceKind::Bucket, 10, 36, 0, 12), event_of(TraceKind::Wait, 20, 36, 0)};
  second.rank = 1;
  second.host = "b";
  second.clock = {1000 * kMs, kMs};
  second.record.events = {event_of(TraceKind::Forward, -1000, -980), event_of(TraceKind::Backward, -980, -964),
                          event_of(TraceKind::Bucket, -970, -964, 0, -970), event_of(TraceKind::Wait, -967, -964, 0)};
  return JobTimeline({second, first});
}

TEST(TraceSummary, SaysWhoWaitedForWhom) {
  const TraceSummary summary = summarise(a_timeline());
  ASSERT_EQ(summary.ranks.size(), 2U);
  EXPECT_DOUBLE_EQ(summary.ranks[0].forward_ms, 5);
  EXPECT_DOUBLE_EQ(summary.ranks[1].forward_ms, 20);
  EXPECT_DOUBLE_EQ(summary.ranks[0].backward_ms, 31);
  EXPECT_DOUBLE_EQ(summary.ranks[0].waited_ms, 16);
  EXPECT_DOUBLE_EQ(summary.ranks[1].waited_ms, 3);
  EXPECT_DOUBLE_EQ(summary.ranks[0].awaited_ms, 0);
  EXPECT_DOUBLE_EQ(summary.ranks[1].awaited_ms, 10);             // from 20 to 30 ms
  EXPECT_DOUBLE_EQ(summary.ranks[0].hidden_share.value(), 0);    // travels from 30 to 36 ms, and waits all the time
  EXPECT_DOUBLE_EQ(summary.ranks[1].hidden_share.value(), 0.5);  // waits from 33 ms on
  EXPECT_EQ(summary.most_awaited, 1);
}

TEST(TraceSummary, IsPartOfTheFile) {
  const JobTimeline timeline = a_timeline();
  TraceNotes notes;
  notes.world_size = 3;
  notes.missing = {"rank 2 was lost"};
  const auto trace = nlohmann::json::parse(chrome_trace_of(timeline, summarise(timeline), notes));
  const auto& about = trace["otherData"];
  EXPECT_EQ(about["complete"], false);
  EXPECT_EQ(about["missing"][0], "rank 2 was lost");
  EXPECT_EQ(about["most_awaited_rank"], 1);
  EXPECT_EQ(about["clocks"][1]["offset_us"], 1e6);
  EXPECT_EQ(about["clocks"][1]["error_us"], 1e3);
  bool found = false;
  for (const auto& event : trace["traceEvents"]) {
    if (event["name"] != "waits for rank 1") continue;
    found = true;
    EXPECT_EQ(event["pid"], 0);
    EXPECT_EQ(event["ts"], 12e3);
    EXPECT_EQ(event["dur"], 18e3);
  }
  EXPECT_TRUE(found);
}

TEST(RankTrace, TravelsAsBytes) {
  RankTrace trace;
  trace.rank = 3;
  trace.host = "host\n\"b\"";
  trace.clock = {-5, 7};
  trace.record.dropped = 2;
  trace.record.events = {event_of(TraceKind::Bucket, 1, 2, 4)};
  const RankTrace read = rank_trace_from(to_bytes(trace));
  EXPECT_EQ(read.host, trace.host);
  EXPECT_EQ(read.clock.offset_ns, -5);
  EXPECT_EQ(read.record.dropped, 2);
  ASSERT_EQ(read.record.events.size(), 1U);
  EXPECT_EQ(read.record.events[0].bucket, 4);
  EXPECT_THROW(rank_trace_from("nonsense"), Error);
  EXPECT_THROW(rank_trace_from(to_bytes(trace) + "x"), Error);
}

}  // namespace
}  // namespace lockstep
