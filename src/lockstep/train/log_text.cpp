#include "lockstep/train/log_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/base/text/affixes.h"

namespace lockstep {
namespace {

std::string duration_text(double seconds) {
  const auto centiseconds = static_cast<long long>(std::floor(seconds * 100));
  return fmt::format("{}:{:02}:{:02}.{:02}", centiseconds / 360000, centiseconds / 6000 % 60, centiseconds / 100 % 60,
                     centiseconds % 100);
}

std::string metric_text(const std::string& name, double value) {
  if (ends_with(name, "_runtime") && std::isfinite(value)) return duration_text(value);
  // Billions of operations, rounded down, as by Hugging Face's metrics_format.
  if (name == "total_flos" && std::isfinite(value)) return fmt::format("{}GF", static_cast<long long>(value) >> 30);
  return python_number(rounded(value, 4));
}

}  // namespace

double rounded(double value, int digits) {
  if (!std::isfinite(value)) return value;
  const double scale = std::pow(10.0, digits);
  const double scaled = std::nearbyint(value * scale);
  return std::isfinite(scaled) ? scaled / scale : value;
}

std::string python_number(double value) {
  if (std::isnan(value)) return "nan";  // its sign says nothing
  std::string text = fmt::format("{}", value);
  if (std::isfinite(value) && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string log_line_text(const Logs& logs) {
  std::string text;
  for (const auto& [name, value] : logs) {
    if (name == "total_flos") continue;
    const double shown = name == "loss" ? rounded(value, 4) : name == "epoch" ? rounded(value, 2) : value;
    text += fmt::format("{}'{}': {}", text.empty() ? "" : ", ", name, python_number(shown));
  }
  return "{" + text + "}";
}

std::string metrics_text(const std::string& split, const Logs& metrics) {
  std::size_t name_width = 0;
  std::size_t value_width = 0;
  Logs sorted = metrics;
  std::sort(sorted.begin(), sorted.end());
  for (const auto& [name, value] : sorted) {
    name_width = std::max(name_width, name.size());
    value_width = std::max(value_width, metric_text(name, value).size());
  }
  std::string text = "***** " + split + " metrics *****\n";
  for (const auto& [name, value] : sorted) {
    text += fmt::format("  {:<{}} = {:>{}}\n", name, name_width, metric_text(name, value), value_width);
  }
  return text;
}

}  // namespace lockstep
