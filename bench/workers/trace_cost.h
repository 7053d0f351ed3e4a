// What a trace costs a step: the time of one event, measured alone, times the events of a step. A comparison of steps
// with and without a trace shows less, because steps differ from each other by more than a trace costs.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>

#include "lockstep/base/trace/trace_recorder.h"

namespace lockstep {

/// The nanoseconds that one event takes, with both looks at the clock. No other trace may be on.
inline double ns_of_trace_event() {
  constexpr int kEvents = static_cast<int>(trace_recorder::kEventsOfThread) - 1;
  TraceWindow all;
  all.last = std::numeric_limits<std::int64_t>::max();
  double best = std::numeric_limits<double>::max();
  for (int round = 0; round < 5; ++round) {
    trace_recorder::start(all, [] {});
    trace_recorder::touch_step();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kEvents; ++i) const trace_recorder::Scope scope(TraceKind::BucketUpdate, 0, 0);
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    trace_recorder::stop();
    best = std::min(best, time.count() / kEvents);
  }
  return best;
}

/// The events of all ranks in a trace's file, which has one span a line. The parts of a bucket's span are not counted.
inline std::int64_t events_in_trace(const std::string& path) {
  const auto has = [](const std::string& line, const char* text) { return line.find(text) != std::string::npos; };
  std::int64_t events = 0;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const bool is_part =
        has(line, "\"name\":\"transfer\"") || has(line, "\"name\":\"ready\"") || has(line, "\"name\":\"waits for rank");
    if (has(line, "\"ph\":\"X\"") && !is_part) ++events;
  }
  return events;
}

/// One line for the table. @param events  of a rank and step
inline std::string trace_cost_text(double events, double ns, double step_ms) {
  char text[160];
  std::snprintf(text, sizeof(text), "a trace: %.1f events a step of %.0f ns each, %.4f %% of the step", events, ns,
                events * ns / (step_ms * 1e6) * 100);
  return text;
}

}  // namespace lockstep
