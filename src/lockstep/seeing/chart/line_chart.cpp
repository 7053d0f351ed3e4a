#include "lockstep/seeing/chart/line_chart.h"

#include <fmt/format.h>

#include "lockstep/seeing/chart/svg_text.h"

namespace lockstep {
namespace {

constexpr double kChartWidth = 560, kChartHeight = 266;
constexpr double kLeft = 62, kRight = 24, kTop = 30, kBottom = 46;  // half of the last number fits at the right
constexpr std::size_t kChartColors = 6;                             // of the page's style sheet

std::string chart_head(const std::string& title, double height) {
  return fmt::format(R"(<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">)", kChartWidth, height,
                     html_escaped(title)) +
         fmt::format(R"(<text class="title" x="{}" y="17">{}</text>)", 8, html_escaped(title));
}

}  // namespace

std::string line_chart_svg(const std::string& title, const std::vector<ChartLine>& lines, const std::string& unit,
                           const ChartXAxis& x_axis) {
  std::vector<double> along = x_values(lines);
  along.insert(along.end(), x_axis.also_shown.begin(), x_axis.also_shown.end());
  const ChartAxis x = ChartAxis::linear(along, kLeft, kChartWidth - kRight);
  const ChartAxis y = ChartAxis::linear(y_values(lines), kChartHeight - kBottom, kTop);
  std::string svg = chart_head(title, kChartHeight) + plot_grid(x, y, unit, /*has_vertical_lines=*/false);
  svg += fmt::format(R"(<text class="axis" x="{:.0f}" y="{:.0f}" text-anchor="middle">{}</text>)",
                     (kLeft + kChartWidth - kRight) / 2, kChartHeight - 8, html_escaped(x_axis.name));
  for (std::size_t i = 0; i < lines.size(); ++i) svg += plot_line(lines[i], i % kChartColors, x, y);
  double at = kChartWidth - kRight;
  for (std::size_t i = lines.size(); i-- > 0 && lines.size() > 1;) {
    const std::string& name = lines[i].name;
    svg += fmt::format(R"(<text class="legend series{}" x="{:.0f}" y="17" text-anchor="end">● {}</text>)",
                       i % kChartColors, at, html_escaped(name));
    at -= 26 + 6.5 * static_cast<double>(name.size());
  }
  return svg + "</svg>";
}

std::string share_bar_svg(const std::string& title, const std::vector<std::pair<std::string, double>>& parts) {
  constexpr double kBarTop = 34, kBarHeight = 30, kRowHeight = 20;
  double whole = 0;
  for (const auto& part : parts) whole += part.second;
  if (whole <= 0) whole = 1;
  const double height = kBarTop + kBarHeight + 16 + kRowHeight * static_cast<double>(parts.size());
  std::string svg = chart_head(title, height);
  double at = 8;
  const double width = kChartWidth - kRight - at;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& [name, size] = parts[i];
    const double wide = width * size / whole;
    svg +=
        fmt::format(R"(<rect class="series{}" x="{:.1f}" y="{}" width="{:.1f}" height="{}"><title>{}</title></rect>)",
                    i % kChartColors, at, kBarTop, wide, kBarHeight, html_escaped(name));
    svg += fmt::format(R"(<text class="legend series{}" x="8" y="{:.0f}">● {}: {} s, {:.1f} %</text>)",
                       i % kChartColors, kBarTop + kBarHeight + kRowHeight * static_cast<double>(i + 1),
                       html_escaped(name), short_number(size), 100 * size / whole);
    at += wide;
  }
  return svg + "</svg>";
}

}  // namespace lockstep
