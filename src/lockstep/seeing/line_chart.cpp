#include "lockstep/seeing/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep {
namespace {

constexpr double kChartWidth = 560, kChartHeight = 250;
constexpr double kLeft = 58, kRight = 12, kTop = 30, kBottom = 30;
constexpr std::size_t kChartColors = 6;
constexpr std::size_t kChartColumns = 250;  // columns of a reduced series
constexpr int kChartTicks = 5;

struct ChartRange {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // Makes sure that the range is not empty.
  void widen() {
    if (!(low <= high)) low = high = 0;
    if (low < high) return;
    const double margin = low == 0 ? 1 : std::abs(low) * 0.1;
    low -= margin;
    high += margin;
  }
};

// 1, 2 or 5 times a power of ten.
double tick_step(const ChartRange& range) {
  const double rough = (range.high - range.low) / kChartTicks;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

std::vector<double> ticks_of(const ChartRange& range) {
  const double step = tick_step(range);
  std::vector<double> ticks;
  for (double index = std::ceil(range.low / step); index * step <= range.high * (1 + 1e-12); ++index) {
    ticks.push_back(index * step);
    if (ticks.size() > 3 * kChartTicks) break;
  }
  return ticks;
}

using ChartPoints = std::vector<std::pair<double, double>>;

// The first, lowest, highest and last point of each column, in order.
ChartPoints thinned(const ChartPoints& points) {
  if (points.size() <= 4 * kChartColumns) return points;
  ChartPoints kept;
  for (std::size_t column = 0; column < kChartColumns; ++column) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(points.size() * column / kChartColumns);
    const auto end = points.begin() + static_cast<std::ptrdiff_t>(points.size() * (column + 1) / kChartColumns);
    const auto by_value = [](const auto& a, const auto& b) { return a.second < b.second; };
    std::vector<ChartPoints::const_iterator> chosen{begin, std::min_element(begin, end, by_value),
                                                    std::max_element(begin, end, by_value), end - 1};
    std::sort(chosen.begin(), chosen.end());
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
    for (const auto& point : chosen) kept.push_back(*point);
  }
  return kept;
}

class ChartDrawing {
 public:
  ChartDrawing(ChartRange x, ChartRange y) : x_(x), y_(y) {}

  double px(double x) const { return kLeft + (x - x_.low) / (x_.high - x_.low) * (kChartWidth - kLeft - kRight); }
  double py(double y) const { return kTop + (y_.high - y) / (y_.high - y_.low) * (kChartHeight - kTop - kBottom); }

  std::string axes(const std::string& unit) const {
    std::string svg;
    for (const double tick : ticks_of(y_)) {
      svg += fmt::format(R"(<line class="grid" x1="{0}" x2="{1}" y1="{2:.1f}" y2="{2:.1f}"/>)", kLeft,
                         kChartWidth - kRight, py(tick));
      svg += fmt::format(R"(<text class="axis" x="{}" y="{:.1f}" text-anchor="end">{}{}</text>)", kLeft - 6,
                         py(tick) + 4, short_number(tick), html_escaped(unit));
    }
    for (const double tick : ticks_of(x_)) {
      svg += fmt::format(R"(<text class="axis" x="{:.1f}" y="{}" text-anchor="middle">{}</text>)", px(tick),
                         kChartHeight - 10, short_number(tick));
    }
    return svg;
  }

  std::string line(const ChartSeries& series, std::size_t color) const {
    std::string path, marks;
    bool draws = false;
    const ChartPoints points = thinned(series.points);
    for (const auto& [x, y] : points) {
      if (!std::isfinite(y)) {
        draws = false;
        continue;
      }
      path += fmt::format("{}{:.1f} {:.1f}", draws ? "L" : "M", px(x), py(y));
      draws = true;
      if (points.size() > 120) continue;
      marks +=
          fmt::format(R"(<circle class="mark" cx="{:.1f}" cy="{:.1f}" r="2.5"><title>{}, step {}: {}</title></circle>)",
                      px(x), py(y), html_escaped(series.name), short_number(x), short_number(y));
    }
    return fmt::format(R"(<g class="series{}"><path d="{}"/>{}</g>)", color % kChartColors, path, marks);
  }

 private:
  ChartRange x_;
  ChartRange y_;
};

std::string chart_head(const std::string& title, double height) {
  return fmt::format(R"(<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">)", kChartWidth, height,
                     html_escaped(title)) +
         fmt::format(R"(<text class="title" x="{}" y="17">{}</text>)", kLeft - 50, html_escaped(title));
}

}  // namespace

std::string html_escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string short_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "infinite" : "-infinite";
  if (std::abs(value) < 1e-12) return "0";
  return fmt::format("{:.4g}", value);
}

std::string line_chart_svg(const std::string& title, const std::vector<ChartSeries>& series, const std::string& unit) {
  ChartRange x, y;
  for (const ChartSeries& one : series) {
    for (const auto& [step, value] : one.points) {
      x.include(step);
      if (std::isfinite(value)) y.include(value);
    }
  }
  x.widen();
  y.widen();
  const ChartDrawing drawing(x, y);
  std::string svg = chart_head(title, kChartHeight) + drawing.axes(unit);
  for (std::size_t i = 0; i < series.size(); ++i) svg += drawing.line(series[i], i);
  double at = kChartWidth - kRight;
  for (std::size_t i = series.size(); i-- > 0 && series.size() > 1;) {
    const std::string& name = series[i].name;
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
  double at = kLeft - 50;
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
