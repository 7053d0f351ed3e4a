#include "lockstep/seeing/chart/chart_sheet.h"

#include <fmt/format.h>

#include <array>

#include "lockstep/seeing/chart/svg_text.h"

namespace lockstep {
namespace {

constexpr double kPlotWidth = 480;
constexpr double kPlotHeight = 410;
constexpr double kSheetLeft = 80;  // of each chart: room for its y labels
constexpr double kSheetGap = 20;
constexpr double kSheetLegend = 200;
constexpr double kSheetTop = 50;
constexpr double kSheetBottom = 60;
constexpr double kFootnote = 24;
constexpr std::array<const char*, 10> kSheetColors = {"#1f5fbf", "#d1495b", "#2e8b57", "#e08e0b", "#6a4c93",
                                                      "#00798c", "#8d5524", "#c2185b", "#7a8b00", "#555555"};

// The classes of plot.h. Without variables, which programs that convert SVG do not know.
std::string sheet_style() {
  std::string css = ".grid{stroke:#ddd}path{fill:none;stroke-width:2}.ring{fill:none;stroke-width:2}";
  for (std::size_t i = 0; i < kSheetColors.size(); ++i) {
    css += fmt::format(".series{0} path,.series{0} line,.series{0} .ring{{stroke:{1}}}.series{0} .mark{{fill:{1}}}", i,
                       kSheetColors[i]);
  }
  return "<style>" + css + "</style>\n";
}

std::string draw_chart(const Chart& chart, double left) {
  const double right = left + kPlotWidth;
  const double bottom = kSheetTop + kPlotHeight;
  const std::vector<double> xs = x_values(chart.lines);
  const ChartAxis x =
      chart.ticks_at_points ? ChartAxis::at_values(xs, left, right) : ChartAxis::decades(xs, left, right);
  const ChartAxis y = ChartAxis::decades(y_values(chart.lines), bottom, kSheetTop);
  std::string out =
      fmt::format("<text x=\"{}\" y=\"26\" font-size=\"15\">{}</text>\n", left, html_escaped(chart.title));
  out += plot_grid(x, y, "", /*has_vertical_lines=*/true);
  out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", (left + right) / 2, bottom + 44,
                     html_escaped(chart.x_label));
  out += fmt::format("<text transform=\"translate({} {}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n", left - 60,
                     (kSheetTop + bottom) / 2, html_escaped(chart.y_label));
  for (std::size_t i = 0; i < chart.lines.size(); ++i) {
    out += plot_line(chart.lines[i], i % kSheetColors.size(), x, y);
  }
  return out;
}

std::string sheet_legend(const std::vector<ChartLine>& lines, double left) {
  std::string out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const double row = kSheetTop + 12 + 20 * static_cast<double>(i);
    out += fmt::format(
        "<g class=\"series{0}\"><line x1=\"{1}\" y1=\"{2}\" x2=\"{3}\" y2=\"{2}\" stroke-width=\"2\"/></g>\n",
        i % kSheetColors.size(), left, row, left + 24);
    out += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", left + 30, row + 4, html_escaped(lines[i].name));
  }
  return out;
}

}  // namespace

std::string svg_charts(const std::vector<Chart>& charts, const std::string& footnote) {
  const double plots = (kSheetLeft + kPlotWidth + kSheetGap) * static_cast<double>(charts.size());
  const double height = kSheetTop + kPlotHeight + kSheetBottom + (footnote.empty() ? 0 : kFootnote);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n",
      plots + kSheetLegend, height);
  out += sheet_style() + "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  for (std::size_t i = 0; i < charts.size(); ++i) {
    out += draw_chart(charts[i], (kSheetLeft + kPlotWidth + kSheetGap) * static_cast<double>(i) + kSheetLeft);
  }
  if (!charts.empty()) out += sheet_legend(charts.front().lines, plots);
  if (!footnote.empty()) {
    out += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", kSheetLeft, height - 14, html_escaped(footnote));
  }
  return out + "</svg>\n";
}

}  // namespace lockstep
