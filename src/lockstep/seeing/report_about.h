#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/seeing/report_data.h"

namespace lockstep {

/// Name and value, as text that is not yet escaped.
using ReportRows = std::vector<std::pair<std::string, std::string>>;

/// What a training's log says that was trained: model, data, command, arguments, machine, versions. A value
/// that is missing or of another kind is left out.
/// @param start  the log's "start" entry
ReportRows about_rows(const nlohmann::json& start);

/// The rows of `data.about`, and how the training ended: its duration, the last evaluation and the best one.
ReportRows summary_rows(const ReportData& data);

}  // namespace lockstep
