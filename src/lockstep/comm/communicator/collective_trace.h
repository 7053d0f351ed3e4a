#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>

#include "lockstep/base/trace/trace_recorder.h"
#include "lockstep/detail/comm/operation.h"
#include "lockstep/detail/net/membership.h"

namespace lockstep {

/// Records a blocking collective of a whole group, for the time of its scope, if a trace is on.
class CollectiveTrace {
 public:
  CollectiveTrace(const Membership& membership, const Fingerprint& fingerprint, const at::Tensor& tensor) {
    if (!trace_recorder::is_recording() || membership.is_part() || is_point_to_point(fingerprint.kind)) return;
    event_.kind = TraceKind::Collective;
    event_.operation = static_cast<std::uint8_t>(fingerprint.kind);
    event_.sequence = fingerprint.sequence;
    event_.group = static_cast<std::uint32_t>(std::hash<std::string>()(membership.group));
    if (tensor.defined()) {
      event_.bytes = static_cast<std::int64_t>(tensor.nbytes());
      event_.dtype = static_cast<std::int8_t>(tensor.scalar_type());
    }
    event_.begin_ns = trace_now_ns();
  }
  ~CollectiveTrace() {
    if (event_.begin_ns == 0) return;
    event_.end_ns = trace_now_ns();
    trace_recorder::add(event_);
  }
  CollectiveTrace(const CollectiveTrace&) = delete;
  CollectiveTrace& operator=(const CollectiveTrace&) = delete;

 private:
  TraceEvent event_;
};

}  // namespace lockstep
