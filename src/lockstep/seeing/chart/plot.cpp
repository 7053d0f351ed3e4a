#include "lockstep/seeing/chart/plot.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/seeing/chart/svg_text.h"

namespace lockstep {
namespace {

constexpr std::size_t kPlotColumns = 250;  // of a line that is reduced
constexpr std::size_t kMostMarks = 120;

using PlotPoints = std::vector<std::pair<double, double>>;

// The first, lowest, highest and last point of each column, in order.
PlotPoints thinned(const PlotPoints& points) {
  if (points.size() <= 4 * kPlotColumns) return points;
  PlotPoints kept;
  for (std::size_t column = 0; column < kPlotColumns; ++column) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(points.size() * column / kPlotColumns);
    const auto end = points.begin() + static_cast<std::ptrdiff_t>(points.size() * (column + 1) / kPlotColumns);
    const auto by_value = [](const auto& a, const auto& b) { return a.second < b.second; };
    std::vector<PlotPoints::const_iterator> chosen{begin, std::min_element(begin, end, by_value),
                                                   std::max_element(begin, end, by_value), end - 1};
    std::sort(chosen.begin(), chosen.end());
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
    for (const auto& point : chosen) kept.push_back(*point);
  }
  return kept;
}

std::string mark(const std::string& name, double x, double y, double at_x, double at_y) {
  return fmt::format(R"(<circle class="mark" cx="{:.1f}" cy="{:.1f}" r="2.5"><title>{}: {:g}, {:g}</title></circle>)",
                     at_x, at_y, html_escaped(name), x, y);
}

}  // namespace

std::vector<double> x_values(const std::vector<ChartLine>& lines) {
  std::vector<double> values;
  for (const ChartLine& line : lines) {
    for (const auto& point : line.points) values.push_back(point.first);
  }
  return values;
}

std::vector<double> y_values(const std::vector<ChartLine>& lines) {
  std::vector<double> values;
  for (const ChartLine& line : lines) {
    for (const auto& point : line.points) values.push_back(point.second);
  }
  return values;
}

std::string plot_grid(const ChartAxis& x, const ChartAxis& y, const std::string& unit, bool has_vertical_lines) {
  std::string svg;
  for (const ChartTick& tick : y.ticks()) {
    const double at = y.at(tick.value);
    svg += fmt::format(R"(<line class="grid" x1="{0}" x2="{1}" y1="{2:.1f}" y2="{2:.1f}"/>)", x.begin(), x.end(), at);
    svg += fmt::format(R"(<text class="axis" x="{}" y="{:.1f}" text-anchor="end">{}{}</text>)", x.begin() - 6, at + 4,
                       tick.text, html_escaped(unit));
  }
  for (const ChartTick& tick : x.ticks()) {
    const double at = x.at(tick.value);
    if (has_vertical_lines) {
      svg += fmt::format(R"(<line class="grid" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>)", at, y.end(), y.begin());
    }
    svg += fmt::format(R"(<text class="axis" x="{:.1f}" y="{}" text-anchor="middle">{}</text>)", at, y.begin() + 20,
                       tick.text);
  }
  return svg + "\n";
}

std::string plot_line(const ChartLine& line, std::size_t color, const ChartAxis& x, const ChartAxis& y) {
  if (line.points.empty()) return "";
  std::string path, marks;
  bool draws = false;
  const auto has_place = [&](const auto& point) { return x.has_place(point.first) && y.has_place(point.second); };
  const PlotPoints points = thinned(line.points);
  for (const auto& point : points) {
    const auto& [px, py] = point;
    if (!has_place(point)) {
      draws = false;
      continue;
    }
    path += fmt::format("{}{:.1f} {:.1f}", draws ? "L" : "M", x.at(px), y.at(py));
    draws = true;
    if (points.size() <= kMostMarks) marks += mark(line.name, px, py, x.at(px), y.at(py));
  }
  if (line.ringed && has_place(line.points.at(*line.ringed))) {
    const auto& [px, py] = line.points.at(*line.ringed);
    marks += fmt::format(R"(<circle class="ring" cx="{:.1f}" cy="{:.1f}" r="8"/>)", x.at(px), y.at(py));
  }
  return fmt::format(R"(<g class="series{}"><path d="{}"/>{}</g>)", color, path, marks) + "\n";
}

}  // namespace lockstep
