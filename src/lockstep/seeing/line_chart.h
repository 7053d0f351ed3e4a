#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// One line of a chart over training steps.
struct ChartSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< step and value; a value that is NaN or infinite breaks the line
};

/// Lines over linear axes, as an SVG element that takes its colors from CSS: classes `series0`..., `grid`, `axis`.
/// Long series are thinned out to what can be seen: of each narrow column the first, last, lowest and highest point.
/// @param unit  stands behind the numbers of the y axis; may be empty
std::string line_chart_svg(const std::string& title, const std::vector<ChartSeries>& series, const std::string& unit);

/// Shares of a whole as one bar of stacked parts. @param parts  name and size, none negative
std::string share_bar_svg(const std::string& title, const std::vector<std::pair<std::string, double>>& parts);

/// `text` with &, <, > and quotes as HTML writes them.
std::string html_escaped(const std::string& text);

/// A number short enough for people: 0.6931, 5e-05, 1.2e+06.
std::string short_number(double value);

}  // namespace lockstep
