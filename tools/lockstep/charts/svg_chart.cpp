#include "tools/lockstep/charts/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace lockstep {
namespace {

constexpr double kPlotWidth = 480;
constexpr double kPlotHeight = 410;
constexpr double kLeft = 80;  // of each chart: room for its y labels
constexpr double kGap = 20;
constexpr double kLegend = 200;
constexpr double kTop = 50;
constexpr double kBottom = 60;
constexpr double kFootnote = 24;
constexpr std::array<const char*, 10> kColors = {"#1f5fbf", "#d1495b", "#2e8b57", "#e08e0b", "#6a4c93",
                                                 "#00798c", "#8d5524", "#c2185b", "#7a8b00", "#555555"};

std::string escape(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '<') {
      safe += "&lt;";
    } else if (c == '&') {
      safe += "&amp;";
    } else {
      safe += c;
    }
  }
  return safe;
}

struct Tick {
  double value;
  std::string text;
};

std::string short_number(double value) {
  return value >= 1 && value < 1e9 ? fmt::format("{:.0f}", value) : fmt::format("{:g}", value);
}

// A logarithmic axis.
struct Axis {
  double low;
  double high;
  double begin;  // position in the picture
  double end;
  std::vector<Tick> ticks;

  double at(double value) const { return begin + std::log10(value / low) / std::log10(high / low) * (end - begin); }
};

template <class Get>
std::vector<double> sorted_values(const std::vector<ChartLine>& lines, Get get) {
  std::vector<double> values;
  for (const ChartLine& line : lines) {
    for (const auto& point : line.points) values.push_back(get(point));
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  if (values.empty()) values.push_back(1);
  return values;
}

// An axis from one power of ten to another, with a tick at each.
Axis decades(const std::vector<double>& values, double begin, double end) {
  const int first = static_cast<int>(std::floor(std::log10(values.front())));
  const int last = std::max(first + 1, static_cast<int>(std::ceil(std::log10(values.back()))));
  Axis axis{std::pow(10, first), std::pow(10, last), begin, end, {}};
  for (int power = first; power <= last; ++power) {
    axis.ticks.push_back({std::pow(10, power), short_number(std::pow(10, power))});
  }
  return axis;
}

// An axis a little wider than the values, with a tick at each value.
Axis at_values(const std::vector<double>& values, double begin, double end) {
  const double margin = values.size() == 1 ? 2 : std::pow(values.back() / values.front(), 0.04);
  Axis axis{values.front() / margin, values.back() * margin, begin, end, {}};
  for (const double value : values) axis.ticks.push_back({value, short_number(value)});
  return axis;
}

std::string grid(const Axis& x, const Axis& y) {
  std::string out;
  for (const Tick& tick : x.ticks) {
    const double at = x.at(tick.value);
    out += fmt::format("<line x1='{0:.1f}' y1='{1}' x2='{0:.1f}' y2='{2}' stroke='#ddd'/>\n", at, y.end, y.begin);
    out += fmt::format("<text x='{:.1f}' y='{}' text-anchor='middle'>{}</text>\n", at, y.begin + 18, tick.text);
  }
  for (const Tick& tick : y.ticks) {
    const double at = y.at(tick.value);
    out += fmt::format("<line x1='{1}' y1='{0:.1f}' x2='{2}' y2='{0:.1f}' stroke='#ddd'/>\n", at, x.begin, x.end);
    out += fmt::format("<text x='{}' y='{:.1f}' text-anchor='end'>{}</text>\n", x.begin - 8, at + 4, tick.text);
  }
  return out;
}

std::string draw(const ChartLine& line, const char* color, const Axis& x, const Axis& y) {
  std::string path;
  std::string marks;
  for (std::size_t i = 0; i < line.points.size(); ++i) {
    const auto& [px, py] = line.points[i];
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", x.at(px), y.at(py));
    marks += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='3' fill='{}'><title>{}: {:g}, {:g}</title></circle>\n",
                         x.at(px), y.at(py), color, escape(line.name), px, py);
    if (line.ringed == i) {
      marks += fmt::format(
          "<circle class='ring' cx='{:.1f}' cy='{:.1f}' r='8' fill='none' stroke='{}' "
          "stroke-width='2'/>\n",
          x.at(px), y.at(py), color);
    }
  }
  if (path.empty()) return "";
  return fmt::format("<path d='{}' fill='none' stroke='{}' stroke-width='2'/>\n{}", path, color, marks);
}

std::string draw(const Chart& chart, double left) {
  const auto xs = sorted_values(chart.lines, [](const auto& point) { return point.first; });
  const auto ys = sorted_values(chart.lines, [](const auto& point) { return point.second; });
  const double right = left + kPlotWidth;
  const double bottom = kTop + kPlotHeight;
  const Axis x = chart.ticks_at_points ? at_values(xs, left, right) : decades(xs, left, right);
  const Axis y = decades(ys, bottom, kTop);
  std::string out = fmt::format("<text x='{}' y='26' font-size='15'>{}</text>\n", left, escape(chart.title));
  out += grid(x, y);
  out += fmt::format("<text x='{}' y='{}' text-anchor='middle'>{}</text>\n", (left + right) / 2, bottom + 44,
                     escape(chart.x_label));
  out += fmt::format("<text transform='translate({} {}) rotate(-90)' text-anchor='middle'>{}</text>\n", left - 60,
                     (kTop + bottom) / 2, escape(chart.y_label));
  for (std::size_t i = 0; i < chart.lines.size(); ++i) out += draw(chart.lines[i], kColors[i % kColors.size()], x, y);
  return out;
}

std::string legend(const std::vector<ChartLine>& lines, double left) {
  std::string out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const double row = kTop + 12 + 20 * static_cast<double>(i);
    out += fmt::format("<line x1='{0}' y1='{1}' x2='{2}' y2='{1}' stroke='{3}' stroke-width='2'/>\n", left, row,
                       left + 24, kColors[i % kColors.size()]);
    out += fmt::format("<text x='{}' y='{}'>{}</text>\n", left + 30, row + 4, escape(lines[i].name));
  }
  return out;
}

}  // namespace

std::string svg_charts(const std::vector<Chart>& charts, const std::string& footnote) {
  const double plots = (kLeft + kPlotWidth + kGap) * static_cast<double>(charts.size());
  const double height = kTop + kPlotHeight + kBottom + (footnote.empty() ? 0 : kFootnote);
  std::string out = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' width='{0}' height='{1}' "
      "font-family='sans-serif' font-size='12'>\n<rect width='100%' height='100%' fill='white'/>\n",
      plots + kLegend, height);
  for (std::size_t i = 0; i < charts.size(); ++i) {
    out += draw(charts[i], (kLeft + kPlotWidth + kGap) * static_cast<double>(i) + kLeft);
  }
  if (!charts.empty()) out += legend(charts.front().lines, plots);
  if (!footnote.empty()) out += fmt::format("<text x='{}' y='{}'>{}</text>\n", kLeft, height - 14, escape(footnote));
  return out + "</svg>\n";
}

}  // namespace lockstep
