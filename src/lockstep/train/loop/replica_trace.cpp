#include "lockstep/train/loop/replica_trace.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "lockstep/base/trace/trace_recorder.h"

namespace lockstep {

void add_to_trace(const StepTrace& step, const std::vector<std::string>& devices) {
  const auto start_ns = std::chrono::nanoseconds(step.start().time_since_epoch()).count();
  for (const TraceSpan& span : step.spans()) {
    const auto part = std::find(kReplicaParts.begin(), kReplicaParts.end(), span.name);
    const auto device = std::find(devices.begin(), devices.end(), span.device);
    if (part == kReplicaParts.end() || device == devices.end()) continue;
    TraceEvent event;
    event.kind = TraceKind::Replica;
    event.operation = static_cast<std::uint8_t>(part - kReplicaParts.begin());
    event.bucket = static_cast<std::int32_t>(device - devices.begin());
    event.bytes = span.bytes;
    event.begin_ns = start_ns + static_cast<std::int64_t>(1e9 * span.begin_s);
    event.end_ns = start_ns + static_cast<std::int64_t>(1e9 * span.end_s);
    trace_recorder::add(event);
  }
}

}  // namespace lockstep
