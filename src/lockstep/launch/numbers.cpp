#include "lockstep/launch/numbers.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr double kYearSeconds = 365.0 * 24 * 3600;

}  // namespace

std::int64_t parse_whole(const std::string& flag, const std::string& text, std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data(), end, value);
  if (status != std::errc() || stop != end || value < least || value > most) {
    throw UsageError(fmt::format("{} is '{}'", flag, text), "command line",
                     fmt::format("give a whole number from {} to {}", least, most));
  }
  return value;
}

double parse_seconds(const std::string& flag, const std::string& text, bool zero) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const bool is_number = !text.empty() && end == text.c_str() + text.size();
  if (!is_number || !(value > 0 || (zero && value == 0)) || !(value <= kYearSeconds)) {
    throw UsageError(fmt::format("{} is '{}'", flag, text), "command line",
                     fmt::format("give a number of seconds, {} zero", zero ? "at least" : "more than"));
  }
  return value;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  for (std::size_t end = text.find(separator); end != std::string::npos; end = text.find(separator, start)) {
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  parts.push_back(text.substr(start));
  return parts;
}

}  // namespace lockstep
