#pragma once

#include <string>
#include <vector>

#include "lockstep/trace/job_timeline.h"
#include "lockstep/trace/trace_summary.h"

namespace lockstep {

/// The names of what events have as numbers.
struct TraceNames {
  std::string (*operation)(int) = nullptr;  ///< of a collective
  std::string (*dtype)(int) = nullptr;
};

/// What a trace says about itself.
struct TraceNotes {
  int world_size = 1;
  TraceWindow window;                ///< that was asked for
  TraceNames names;                  ///< needed if events have operations or dtypes
  std::vector<std::string> missing;  ///< why it is incomplete: ranks that are missing or were cut off; empty: it is not
};

/// The job's trace in Chrome's trace event format, for ui.perfetto.dev: a process row for each rank, in it a track for
/// each thread and each bucket. "otherData" has the notes, every rank's clock and the summary.
std::string chrome_trace_of(const JobTimeline& timeline, const TraceSummary& summary, const TraceNotes& notes);

}  // namespace lockstep
