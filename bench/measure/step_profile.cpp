#include "bench/measure/step_profile.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostRows = 12;

std::string summary_row(const std::string& name, double ms, double step_ms, double gflop) {
  const std::string rate = gflop > 0 ? fmt::format("{:>9.1f} {:>8.1f}", gflop, gflop / ms * 1e3) : "";
  return fmt::format("{:<36} {:>10.3f} {:>6.1f}% {}\n", name, ms, 100 * ms / step_ms, rate);
}

std::string summary(const Json& profile) {
  const double step_ms = profile["step_ms"], products_ms = profile["products_ms"], gflop = profile["gflop"];
  std::string text = fmt::format("{:<36} {:>10} {:>7} {:>9} {:>8}\n", "", "ms", "of step", "GFLOP", "GFLOP/s");
  text += summary_row("step", step_ms, step_ms, 0);
  text += summary_row("matrix products", products_ms, step_ms, gflop);
  text += summary_row("  bound: the same products alone", profile["alone_ms"], step_ms, gflop);
  if (profile["registers_gflops"].is_number() && gflop > 0) {
    const double ms = gflop / profile["registers_gflops"].get<double>() * 1e3;
    text += summary_row("  bound: in registers alone", ms, step_ms, gflop);
  }
  return text + summary_row("all else", step_ms - products_ms, step_ms, 0);
}

std::string product_rows(const Json& products) {
  std::string text = fmt::format("{:<36} {:>6} {:>10} {:>8} {:>10} {:>8}\n", "rows x inner x columns", "calls", "ms",
                                 "GFLOP/s", "alone ms", "GFLOP/s");
  for (std::size_t i = 0; i < std::min(kMostRows, products.size()); ++i) {
    const Json& row = products[i];
    const double ms = row["ms"], alone_ms = row["alone_ms"], gflop = row["gflop"];
    text += fmt::format("{:<36} {:>6.0f} {:>10.3f} {:>8.1f} {:>10.3f} {:>8.1f}\n", row["size"].get<std::string>(),
                        row["calls"].get<double>(), ms, gflop / ms * 1e3, alone_ms, gflop / alone_ms * 1e3);
  }
  if (products.size() > kMostRows) text += fmt::format("and {} sizes that take less\n", products.size() - kMostRows);
  return text;
}

std::string other_rows(const Json& others, double step_ms) {
  std::string text = fmt::format("{:<36} {:>6} {:>10} {:>7}\n", "all else", "calls", "ms", "of step");
  double rest_ms = 0;
  for (std::size_t i = 0; i < others.size(); ++i) {
    const Json& row = others[i];
    const double ms = row["ms"];
    if (i >= kMostRows && i + 1 < others.size()) {  // the last row is the time outside of operators
      rest_ms += ms;
      continue;
    }
    text += fmt::format("{:<36} {:>6.0f} {:>10.3f} {:>6.1f}%\n", row["name"].get<std::string>(),
                        row["calls"].get<double>(), ms, 100 * ms / step_ms);
  }
  if (rest_ms > 0)
    text += fmt::format("{:<36} {:>6} {:>10.3f} {:>6.1f}%\n", "others", "", rest_ms, 100 * rest_ms / step_ms);
  return text;
}

}  // namespace

std::string step_profile_text(const std::string& system, int ranks, const Json& profile) {
  return fmt::format("\nprofile of {}, rank 0 of {}: the mean of steps in which every operator was timed\n", system,
                     ranks) +
         summary(profile) + "\n" + product_rows(profile["products"]) + "\n" +
         other_rows(profile["others"], profile["step_ms"]);
}

}  // namespace lockstep
