#include "lockstep/base/trace/trace_window.h"

#include <charconv>

#include "lockstep/base/error.h"

namespace lockstep {

TraceWindow trace_window(const std::string& text) {
  TraceWindow window;
  const char* const end = text.data() + text.size();
  auto read = std::from_chars(text.data(), end, window.first);
  window.last = window.first;
  if (read.ec == std::errc() && read.ptr != end && *read.ptr == '-') {
    read = std::from_chars(read.ptr + 1, end, window.last);
  }
  if (read.ec == std::errc() && read.ptr == end && window.first >= 1 && window.last >= window.first) return window;
  throw UsageError("\"" + text + "\" is not a range of steps", "trace",
                   "write FIRST-LAST, such as 10-20, with steps counted from 1");
}

}  // namespace lockstep
