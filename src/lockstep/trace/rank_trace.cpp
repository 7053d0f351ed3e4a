#include "lockstep/trace/rank_trace.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"

namespace lockstep {

// A line of JSON, then the events as they lie in memory: all ranks run the same program.
std::string to_bytes(const RankTrace& trace) {
  const nlohmann::json head{{"rank", trace.rank},
                            {"host", trace.host},
                            {"offset_ns", trace.clock.offset_ns},
                            {"error_ns", trace.clock.error_ns},
                            {"dropped", trace.record.dropped},
                            {"steps", trace.record.steps},
                            {"cut_off", trace.cut_off},
                            {"event_bytes", sizeof(TraceEvent)}};
  std::string bytes = head.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
  bytes.append(reinterpret_cast<const char*>(trace.record.events.data()),
               trace.record.events.size() * sizeof(TraceEvent));
  return bytes;
}

RankTrace rank_trace_from(std::string_view bytes) {
  const std::size_t end = bytes.find('\n');
  const auto head = nlohmann::json::parse(bytes.substr(0, end), nullptr, /*allow_exceptions=*/false);
  const std::size_t size = end == std::string_view::npos ? 0 : bytes.size() - end - 1;
  if (!head.is_object() || head.value("event_bytes", std::size_t{0}) != sizeof(TraceEvent) ||
      size % sizeof(TraceEvent) != 0) {
    throw Error("a rank's part of the trace cannot be read", "trace", "run the same build of Lockstep on every host");
  }
  RankTrace trace;
  trace.rank = head.value("rank", 0);
  trace.host = head.value("host", "");
  trace.clock = {head.value("offset_ns", std::int64_t{0}), head.value("error_ns", std::int64_t{0})};
  trace.record.dropped = head.value("dropped", std::int64_t{0});
  trace.record.steps = head.value("steps", std::int64_t{0});
  trace.cut_off = head.value("cut_off", "");
  trace.record.events.resize(size / sizeof(TraceEvent));
  if (size > 0) std::memcpy(trace.record.events.data(), bytes.data() + end + 1, size);
  return trace;
}

}  // namespace lockstep
