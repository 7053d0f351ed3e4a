#pragma once

#include <string>

#include "lockstep/seeing/report_data.h"

namespace lockstep {

/// Adds what the lines of a `metrics.jsonl` say. If a training went back to a checkpoint, what the earlier run logged
/// after it is left out. Lines that cannot be read, as a crash leaves them, become a warning.
/// @param path  named in warnings
/// @return  whether there was an entry
bool read_metrics(const std::string& text, const std::string& path, ReportData& data);

}  // namespace lockstep
