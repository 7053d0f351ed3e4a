#pragma once

#include <string>

#include "lockstep/seeing/report_data.h"

namespace lockstep {

/// One self-contained HTML file: what was trained, charts of loss, learning rate, metrics, throughput and memory as
/// inline SVG, time by phase, checkpoints, configuration. Light or dark, as the reader's browser prefers.
std::string html_report(const ReportData& data);

}  // namespace lockstep
