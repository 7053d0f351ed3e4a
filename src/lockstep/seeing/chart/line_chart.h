#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lockstep/seeing/chart/plot.h"

namespace lockstep {

/// Lines over linear axes, as an SVG element of a page whose style sheet has the classes of plot.h, and `chart`,
/// `title` and `legend`.
/// @param unit  follows the numbers of the y axis; may be empty
std::string line_chart_svg(const std::string& title, const std::vector<ChartLine>& lines, const std::string& unit);

/// Shares of a whole as one bar of stacked parts. @param parts  name and size; sizes are not negative
std::string share_bar_svg(const std::string& title, const std::vector<std::pair<std::string, double>>& parts);

}  // namespace lockstep
