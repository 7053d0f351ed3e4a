#pragma once

#include <string>
#include <vector>

#include "lockstep/seeing/chart/plot.h"

namespace lockstep {

/// Lines over logarithmic axes: x and y of all points are positive. Labels contain their units.
struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<ChartLine> lines;
  /// Labels below the x axis are the x of each point, which suits a few sizes or numbers of ranks, instead of the
  /// powers of ten.
  bool ticks_at_points = false;
};

/// Charts side by side as an SVG document that needs no style sheet: lines with marks, a grid, and one legend for the
/// lines of the first chart. Lines of equal index have equal colors in all charts. @param footnote  a line of text
/// below them; may be empty
std::string svg_charts(const std::vector<Chart>& charts, const std::string& footnote = "");

/// One chart.
inline std::string svg_chart(const std::string& title, const std::string& x_label, const std::string& y_label,
                             const std::vector<ChartLine>& lines) {
  return svg_charts({{title, x_label, y_label, lines}});
}

}  // namespace lockstep
