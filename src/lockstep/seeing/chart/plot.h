#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/seeing/chart/chart_axis.h"

namespace lockstep {

/// A line of a chart: points (x, y), one of which (by its index) may have a ring around it. A y that is NaN or infinite
/// breaks the line.
struct ChartLine {
  std::string name;
  std::vector<std::pair<double, double>> points;
  std::optional<std::size_t> ringed = {};
};

/// The x, or the y, of all points of all lines.
std::vector<double> x_values(const std::vector<ChartLine>& lines);
std::vector<double> y_values(const std::vector<ChartLine>& lines);

/// Parts of a plot as SVG. Colors and strokes are the style sheet's: classes `grid`, `axis`, `mark`, `ring`, and a
/// group `series0`, `series1`, ... for each line.
///
/// The ticks' labels and the lines across the plot at them. @param unit  follows the numbers of the y axis
std::string plot_grid(const ChartAxis& x, const ChartAxis& y, const std::string& unit, bool has_vertical_lines);
/// A line, with marks if it has few points. Long lines are reduced to visible points: the first, last, lowest and
/// highest of each narrow column.
std::string plot_line(const ChartLine& line, std::size_t color, const ChartAxis& x, const ChartAxis& y);

}  // namespace lockstep
