#include "lockstep/seeing/chart/chart_axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lockstep/seeing/chart/svg_text.h"

namespace lockstep {
namespace {

constexpr int kFewestTicks = 5;

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
  const double rough = (range.high - range.low) / kFewestTicks;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

// Sizes and numbers of ranks in full.
std::string whole_number(double value) {
  return value >= 1 && value < 1e9 ? fmt::format("{:.0f}", value) : fmt::format("{:g}", value);
}

// What a logarithmic axis can show: the finite positive values in order, each once; 1 if there is none.
std::vector<double> distinct(std::vector<double> values) {
  const auto has_no_place = [](double value) { return !std::isfinite(value) || value <= 0; };
  values.erase(std::remove_if(values.begin(), values.end(), has_no_place), values.end());
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  if (values.empty()) values.push_back(1);
  return values;
}

}  // namespace

ChartAxis::ChartAxis(bool is_logarithmic, double low, double high, double begin, double end)
    : is_logarithmic_(is_logarithmic), low_(low), high_(high), begin_(begin), end_(end) {}

ChartAxis ChartAxis::linear(const std::vector<double>& values, double begin, double end) {
  ChartRange range;
  for (const double value : values) {
    if (std::isfinite(value)) range.include(value);
  }
  range.widen();
  ChartAxis axis(false, range.low, range.high, begin, end);
  const double step = tick_step(range);
  for (double index = std::ceil(range.low / step); index * step <= range.high * (1 + 1e-12); ++index) {
    axis.ticks_.push_back({index * step, short_number(index * step)});
    if (axis.ticks_.size() > 3 * kFewestTicks) break;
  }
  return axis;
}

ChartAxis ChartAxis::decades(const std::vector<double>& values, double begin, double end) {
  const std::vector<double> sorted = distinct(values);
  const int first = static_cast<int>(std::floor(std::log10(sorted.front())));
  const int last = std::max(first + 1, static_cast<int>(std::ceil(std::log10(sorted.back()))));
  ChartAxis axis(true, first, last, begin, end);
  for (int power = first; power <= last; ++power) {
    axis.ticks_.push_back({std::pow(10, power), whole_number(std::pow(10, power))});
  }
  return axis;
}

ChartAxis ChartAxis::at_values(const std::vector<double>& values, double begin, double end) {
  const std::vector<double> sorted = distinct(values);
  const double margin = sorted.size() == 1 ? 2 : std::pow(sorted.back() / sorted.front(), 0.04);
  ChartAxis axis(true, std::log10(sorted.front() / margin), std::log10(sorted.back() * margin), begin, end);
  for (const double value : sorted) axis.ticks_.push_back({value, whole_number(value)});
  return axis;
}

bool ChartAxis::has_place(double value) const { return std::isfinite(value) && (!is_logarithmic_ || value > 0); }

double ChartAxis::at(double value) const {
  const double place = is_logarithmic_ ? std::log10(value) : value;
  return begin_ + (place - low_) / (high_ - low_) * (end_ - begin_);
}

}  // namespace lockstep
