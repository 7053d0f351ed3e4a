#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// A line of a chart: points (x, y), both positive.
struct ChartLine {
  std::string name;
  std::vector<std::pair<double, double>> points;
};

/// A chart with logarithmic axes as an SVG document: lines with marks, grid, legend.
/// @param x_label, y_label  with their units
std::string svg_chart(const std::string& title, const std::string& x_label, const std::string& y_label,
                      const std::vector<ChartLine>& lines);

}  // namespace lockstep
