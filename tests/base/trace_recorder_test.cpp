#include "lockstep/base/trace/trace_recorder.h"

#include <gtest/gtest.h>

#include <thread>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

void make_step() {
  { const trace_recorder::Scope forward(TraceKind::Forward); }
  trace_recorder::end_step();
  { const trace_recorder::Scope update(TraceKind::Update); }
}

TEST(TraceRecorder, RecordsTheWindowAndTellsWhenItIsOver) {
  int ends = 0;
  trace_recorder::start({2, 3}, [&] { ++ends; });
  for (int step = 1; step <= 3; ++step) make_step();
  EXPECT_EQ(ends, 0);
  for (int step = 4; step <= 6; ++step) make_step();
  EXPECT_EQ(ends, 1);
  EXPECT_FALSE(trace_recorder::is_on());
  const TraceRecord record = trace_recorder::stop();
  std::vector<std::pair<int, TraceKind>> got;
  for (const TraceEvent& event : record.events) {
    got.emplace_back(event.step, event.kind);
    EXPECT_LE(event.begin_ns, event.end_ns);
  }
  const std::vector<std::pair<int, TraceKind>> want{
      {2, TraceKind::Forward}, {2, TraceKind::Update}, {3, TraceKind::Forward}, {3, TraceKind::Update}};
  EXPECT_EQ(got, want);
  EXPECT_EQ(record.dropped, 0);
}

TEST(TraceRecorder, RecordsNothingWhenItIsOff) {
  trace_recorder::start({1, 1}, [] {});
  trace_recorder::stop();
  make_step();
  EXPECT_TRUE(trace_recorder::stop().events.empty());
}

TEST(TraceRecorder, CountsWhatItDrops) {
  trace_recorder::start({1, 1}, [] {});
  trace_recorder::touch_step();
  for (std::size_t i = 0; i < trace_recorder::kEventsOfThread + 7; ++i) trace_recorder::add({});
  const TraceRecord record = trace_recorder::stop();
  EXPECT_EQ(record.events.size(), trace_recorder::kEventsOfThread);
  EXPECT_EQ(record.dropped, 7);
}

TEST(TraceRecorder, KeepsThreadsApart) {
  trace_recorder::start({1, 1}, [] {});
  trace_recorder::touch_step();
  trace_recorder::add({});
  std::thread([] { trace_recorder::add({}); }).join();
  const TraceRecord record = trace_recorder::stop();
  ASSERT_EQ(record.events.size(), 2U);
  EXPECT_NE(record.events[0].thread, record.events[1].thread);
}

TEST(TraceWindow, ReadsRanges) {
  EXPECT_EQ(trace_window("10-20").first, 10);
  EXPECT_EQ(trace_window("10-20").last, 20);
  EXPECT_EQ(trace_window("7").last, 7);
  for (const char* bad : {"", "0", "a", "5-4", "3-", "-3", "1-2-3", "1 - 2", "99999999999999999999"}) {
    EXPECT_THROW(trace_window(bad), UsageError) << bad;
  }
}

}  // namespace
}  // namespace lockstep
