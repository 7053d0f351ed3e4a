#pragma once

#include <string>
#include <vector>

#include "lockstep/replicas/step_trace.h"

namespace lockstep {

/// Adds the parts of DataParallel's step to the trace of this process.
/// @param devices  the replicas' names, in their order
void add_to_trace(const StepTrace& step, const std::vector<std::string>& devices);

}  // namespace lockstep
