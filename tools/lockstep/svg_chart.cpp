#include "tools/lockstep/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace lockstep {
namespace {

constexpr double kWidth = 820;
constexpr double kHeight = 520;
constexpr double kLeft = 80;
constexpr double kRight = 180;  // of which most is the legend
constexpr double kTop = 50;
constexpr double kBottom = 60;
constexpr std::array<const char*, 8> kColors = {"#1f5fbf", "#d1495b", "#2e8b57", "#e08e0b",
                                                "#6a4c93", "#00798c", "#8d5524", "#555555"};

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

// A logarithmic axis from a power of ten to another.
struct Axis {
  int first = 0;
  int last = 1;
  double begin;  // in the picture
  double end;

  double at(double value) const { return begin + (std::log10(value) - first) / (last - first) * (end - begin); }
};

template <class Get>
Axis fit(const std::vector<ChartLine>& lines, double begin, double end, Get get) {
  double low = 1e300;
  double high = 1e-300;
  for (const ChartLine& line : lines) {
    for (const auto& point : line.points) {
      low = std::min(low, get(point));
      high = std::max(high, get(point));
    }
  }
  if (low > high) low = high = 1;
  Axis axis{static_cast<int>(std::floor(std::log10(low))), static_cast<int>(std::ceil(std::log10(high))), begin, end};
  if (axis.last <= axis.first) axis.last = axis.first + 1;
  return axis;
}

std::string number(int power) {
  const double value = std::pow(10, power);
  return power >= 0 && power < 7 ? fmt::format("{:.0f}", value) : fmt::format("{:g}", value);
}

std::string grid(const Axis& x, const Axis& y) {
  std::string out;
  for (int power = x.first; power <= x.last; ++power) {
    const double at = x.at(std::pow(10, power));
    out +=
        fmt::format("<line x1='{0:.1f}' y1='{1}' x2='{0:.1f}' y2='{2}' stroke='#ddd'/>\n", at, kTop, kHeight - kBottom);
    out += fmt::format("<text x='{:.1f}' y='{}' text-anchor='middle'>{}</text>\n", at, kHeight - kBottom + 18,
                       number(power));
  }
  for (int power = y.first; power <= y.last; ++power) {
    const double at = y.at(std::pow(10, power));
    out +=
        fmt::format("<line x1='{1}' y1='{0:.1f}' x2='{2}' y2='{0:.1f}' stroke='#ddd'/>\n", at, kLeft, kWidth - kRight);
    out += fmt::format("<text x='{}' y='{:.1f}' text-anchor='end'>{}</text>\n", kLeft - 8, at + 4, number(power));
  }
  return out;
}

std::string draw(const ChartLine& line, std::size_t index, const Axis& x, const Axis& y) {
  const char* color = kColors[index % kColors.size()];
  std::string path;
  std::string marks;
  for (const auto& [px, py] : line.points) {
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", x.at(px), y.at(py));
    marks += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='3' fill='{}'><title>{}: {:g}, {:g}</title></circle>\n",
                         x.at(px), y.at(py), color, escape(line.name), px, py);
  }
  const double row = kTop + 12 + 20 * static_cast<double>(index);
  return fmt::format("<path d='{}' fill='none' stroke='{}' stroke-width='2'/>\n{}", path, color, marks) +
         fmt::format("<line x1='{0}' y1='{1}' x2='{2}' y2='{1}' stroke='{3}' stroke-width='2'/>\n",
                     kWidth - kRight + 14, row, kWidth - kRight + 38, color) +
         fmt::format("<text x='{}' y='{}'>{}</text>\n", kWidth - kRight + 44, row + 4, escape(line.name));
}

}  // namespace

std::string svg_chart(const std::string& title, const std::string& x_label, const std::string& y_label,
                      const std::vector<ChartLine>& lines) {
  const Axis x = fit(lines, kLeft, kWidth - kRight, [](const auto& point) { return point.first; });
  const Axis y = fit(lines, kHeight - kBottom, kTop, [](const auto& point) { return point.second; });
  std::string out = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' width='{0}' height='{1}' "
      "font-family='sans-serif' font-size='12'>\n<rect width='100%' height='100%' fill='white'/>\n",
      kWidth, kHeight);
  out += fmt::format("<text x='{}' y='26' font-size='15'>{}</text>\n", kLeft, escape(title));
  out += grid(x, y);
  out += fmt::format("<text x='{}' y='{}' text-anchor='middle'>{}</text>\n", (kLeft + kWidth - kRight) / 2,
                     kHeight - 16, escape(x_label));
  out += fmt::format("<text transform='translate(20 {}) rotate(-90)' text-anchor='middle'>{}</text>\n",
                     (kTop + kHeight - kBottom) / 2, escape(y_label));
  for (std::size_t i = 0; i < lines.size(); ++i) out += draw(lines[i], i, x, y);
  return out + "</svg>\n";
}

}  // namespace lockstep
