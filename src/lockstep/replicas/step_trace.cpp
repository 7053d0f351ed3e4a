#include "lockstep/replicas/step_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep {
namespace {

double trace_seconds(StepTrace::Clock::time_point from, StepTrace::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// Names and devices contain no other characters that JSON must escape.
std::string json_text(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

}  // namespace

void StepTrace::add(const std::string& name, const std::string& device, Clock::time_point begin, Clock::time_point end,
                    std::int64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  spans_.push_back({name, device, trace_seconds(start_, begin), trace_seconds(start_, end), bytes});
}

std::vector<TraceSpan> StepTrace::spans() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<TraceSpan> sorted = spans_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const TraceSpan& a, const TraceSpan& b) { return a.begin_s < b.begin_s; });
  return sorted;
}

void StepTrace::clear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  spans_.clear();
}

TraceScope::TraceScope(StepTrace* trace, const char* name, std::string device, std::int64_t bytes)
    : trace_(trace), name_(name), device_(std::move(device)), bytes_(bytes) {
  if (trace_ != nullptr) begin_ = StepTrace::Clock::now();
}

TraceScope::~TraceScope() {
  if (trace_ != nullptr) trace_->add(name_, device_, begin_, StepTrace::Clock::now(), bytes_);
}

std::string chrome_trace(const std::vector<TraceSpan>& spans) {
  std::vector<std::string> devices;
  for (const TraceSpan& span : spans) {
    if (std::find(devices.begin(), devices.end(), span.device) == devices.end()) devices.push_back(span.device);
  }
  std::sort(devices.begin(), devices.end());
  std::string events;
  for (std::size_t row = 0; row < devices.size(); ++row) {
    events += fmt::format(R"(  {{"name": "thread_name", "ph": "M", "pid": 0, "tid": {}, "args": {{"name": "{}"}}}},)"
                          "\n",
                          row, json_text(devices[row]));
  }
  for (const TraceSpan& span : spans) {
    const auto row = std::find(devices.begin(), devices.end(), span.device) - devices.begin();
    events += fmt::format(R"(  {{"name": "{}", "ph": "X", "pid": 0, "tid": {}, "ts": {:.3f}, "dur": {:.3f}, )"
                          R"("args": {{"bytes": {}}}}},)"
                          "\n",
                          json_text(span.name), row, 1e6 * span.begin_s, 1e6 * (span.end_s - span.begin_s), span.bytes);
  }
  if (!events.empty()) events.erase(events.size() - 2, 1);  // the last comma
  return "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n" + events + "]}\n";
}

}  // namespace lockstep
