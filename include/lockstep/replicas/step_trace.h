#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace lockstep {

/// One part of a training step of DataParallel: its name, device, times, and the bytes that moved between devices.
struct TraceSpan {
  std::string name;    ///< "scatter", "broadcast", "forward", "gather", "backward", "reduce"
  std::string device;  ///< "cpu:1"
  double begin_s = 0;  ///< seconds since the trace was made
  double end_s = 0;
  std::int64_t bytes = 0;  ///< bytes that go from replica to replica, copied or as a view; 0 for shared weights
};

/// Collects spans from all threads of a step. Thread-safe.
class StepTrace {
 public:
  using Clock = std::chrono::steady_clock;

  Clock::time_point start() const { return start_; }
  void add(const std::string& name, const std::string& device, Clock::time_point begin, Clock::time_point end,
           std::int64_t bytes = 0);
  /// The spans recorded so far, sorted by their begin.
  std::vector<TraceSpan> spans() const;
  void clear();

 private:
  Clock::time_point start_ = Clock::now();
  mutable std::mutex mutex_;
  std::vector<TraceSpan> spans_;
};

/// Records the time from its construction to its end as a span. Does nothing without a trace.
class TraceScope {
 public:
  TraceScope(StepTrace* trace, const char* name, std::string device, std::int64_t bytes = 0);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;
  void add_bytes(std::int64_t bytes) { bytes_ += bytes; }

 private:
  StepTrace* trace_;
  const char* name_;
  std::string device_;
  std::int64_t bytes_;
  StepTrace::Clock::time_point begin_;
};

/// The spans in Chrome's trace event format, with a row per device, for ui.perfetto.dev.
std::string chrome_trace(const std::vector<TraceSpan>& spans);

}  // namespace lockstep
