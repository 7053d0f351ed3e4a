#include "lockstep/train/checks/flat_loss.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

namespace lockstep {
namespace {

constexpr double kLeastFall = 0.02;  // of the loss

std::vector<double> losses_of(const std::vector<LogEntry>& history) {
  std::vector<double> losses;
  for (const LogEntry& entry : history) {
    const auto found = entry.values.find("loss");
    if (found != entry.values.end() && std::isfinite(found->second)) losses.push_back(found->second);
  }
  return losses;
}

}  // namespace

std::string flat_loss_line(const std::vector<LogEntry>& history, double learning_rate) {
  const std::vector<double> losses = losses_of(history);
  if (losses.size() < kLeastLossesToJudge) return "";
  const auto third = static_cast<std::ptrdiff_t>(losses.size() / 3);
  const auto mean = [third](auto begin) {
    return std::accumulate(begin, begin + third, 0.0) / static_cast<double>(third);
  };
  const double first = mean(losses.begin());
  const double last = mean(losses.end() - third);
  if (last < first - kLeastFall * std::abs(first)) return "";
  return fmt::format(
      "The loss did not fall: it was {:.4g} on average in the first third of the log, and {:.4g} in the last. Try "
      "another learning rate (now {:g}), more epochs, or a model that was trained before.",
      first, last, learning_rate);
}

}  // namespace lockstep
