#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/trace/trace_recorder.h"
#include "lockstep/trace/clock_offset.h"

namespace lockstep {

/// One rank's part of a trace.
struct RankTrace {
  int rank = 0;
  std::string host;
  ClockOffset clock;
  TraceRecord record;   ///< in the rank's own time
  std::string cut_off;  ///< why the rank ended before its steps did; empty: it did not
};

/// The part as bytes, for the store.
std::string to_bytes(const RankTrace& trace);
/// @throws Error  if the bytes are not those of a part of this version
RankTrace rank_trace_from(std::string_view bytes);

}  // namespace lockstep
