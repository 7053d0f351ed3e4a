#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lockstep/seeing/chart/plot.h"

namespace lockstep {

/// The x axis of a chart besides its lines.
struct ChartXAxis {
  std::string name = "step";
  std::vector<double> also_shown = {};  ///< the axis reaches as far as these: charts side by side get one scale
};

/// Lines over linear axes, as an SVG element of a page whose style sheet has the classes of plot.h, and `chart`,
/// `title` and `legend`.
/// @param unit  follows the numbers of the y axis; may be empty
std::string line_chart_svg(const std::string& title, const std::vector<ChartLine>& lines, const std::string& unit,
                           const ChartXAxis& x_axis = {});

/// Shares of a whole as one bar of stacked parts. @param parts  name and size; sizes are not negative
std::string share_bar_svg(const std::string& title, const std::vector<std::pair<std::string, double>>& parts);

}  // namespace lockstep
