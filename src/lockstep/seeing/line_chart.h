#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// One line of a chart over training steps.
struct ChartSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< step and value; a NaN or infinite value breaks the line
};

/// Lines over linear axes, as an SVG element that takes its colors from CSS: classes `series0`..., `grid`, `axis`. Long
/// series are reduced to visible points: the first, last, lowest and highest of each narrow column.
/// @param unit  follows the numbers of the y axis; may be empty
std::string line_chart_svg(const std::string& title, const std::vector<ChartSeries>& series, const std::string& unit);

/// Shares of a whole as one bar of stacked parts. @param parts  name and size; sizes are not negative
std::string share_bar_svg(const std::string& title, const std::vector<std::pair<std::string, double>>& parts);

/// `text` with &, <, > and quotes escaped for HTML.
std::string html_escaped(const std::string& text);

/// A number in a short form for people: 0.6931, 5e-05, 1.2e+06.
std::string short_number(double value);

}  // namespace lockstep
