#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// The steps that are traced, counted from 1; both are included.
struct TraceWindow {
  std::int64_t first = 1;
  std::int64_t last = 1;
};

/// "10-20" or "10". @throws UsageError  if the text is something else
TraceWindow trace_window(const std::string& text);

}  // namespace lockstep
