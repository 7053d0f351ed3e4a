#include "lockstep/comm/trace.h"

#include <optional>

#include "lockstep/base/trace/trace_window.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/comm/trace_names.h"
#include "lockstep/trace/job_trace.h"

namespace lockstep {
namespace {

std::optional<Membership> default_membership() {
  if (!is_initialized()) return std::nullopt;
  return default_group()->membership();
}

}  // namespace

class Trace::Implementation {
 public:
  explicit Implementation(const TraceOptions& options)
      : trace(options.file, {options.first_step, options.last_step}, default_membership(), names_in_traces()) {}
  JobTrace trace;
};

Trace::Trace(const TraceOptions& options) : implementation_(std::make_unique<Implementation>(options)) {}
Trace::~Trace() = default;

std::string Trace::finish() { return implementation_->trace.finish(); }

TraceOptions trace_options(const std::string& file, const std::string& steps) {
  const TraceWindow window = trace_window(steps);
  return {file, window.first, window.last};
}

}  // namespace lockstep
