#pragma once

#include <string>

#include "lockstep/seeing/report_data.h"

namespace lockstep {

/// One HTML file that needs nothing else: charts of loss, learning rate, metrics, throughput and memory as inline SVG,
/// where the time went, checkpoints, configuration. Light or dark as the reader's browser asks.
std::string html_report(const ReportData& data);

}  // namespace lockstep
