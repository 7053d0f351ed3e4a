#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lockstep/base/trace/trace_window.h"
#include "lockstep/detail/net/membership.h"
#include "lockstep/trace/chrome_trace.h"

namespace lockstep {

/// The trace of a job's ranks, as `Trace` promises it to programs (comm/trace.h), for ranks of any group.
class JobTrace {
 public:
  /// Collective over the ranks of `membership`; nothing: for this process alone.
  /// @throws Error  as Trace's constructor
  JobTrace(const std::string& file, const TraceWindow& window, const std::optional<Membership>& membership,
           const TraceNames& names);
  /// Drops the recording, with a warning, if its steps are not over and `finish` was not called.
  ~JobTrace();
  JobTrace(const JobTrace&) = delete;
  JobTrace& operator=(const JobTrace&) = delete;

  /// Ends the recording, as Trace::finish.
  std::string finish();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace lockstep
