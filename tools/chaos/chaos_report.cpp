#include "tools/chaos/chaos_report.h"

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace lockstep {
namespace {

// The nearest-rank percentile of sorted values.
double percentile(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

void print_waits(const std::string& name, std::vector<double> waits_ms, const std::string& since, std::ostream& out) {
  if (waits_ms.empty()) return;
  std::sort(waits_ms.begin(), waits_ms.end());
  fmt::print(out, "{:<13}median {:.3f} s, p99 {:.3f} s, longest {:.3f} s in {} recoveries, {}\n", name,
             percentile(waits_ms, 0.5) / 1000, percentile(waits_ms, 0.99) / 1000, waits_ms.back() / 1000,
             waits_ms.size(), since);
}

int deaths_of_all(const ChaosCounts& counts) {
  const auto found = counts.faults.find(Fault::All);
  return found == counts.faults.end() ? 0 : found->second;
}

void print_faults(const ChaosResult& result, std::ostream& out) {
  const ChaosCounts& counts = result.counts;
  std::vector<std::string> by_kind;
  for (const auto& [name, fault] : named_faults()) {
    if (counts.faults.count(fault) > 0) by_kind.push_back(fmt::format("{} {}", name, counts.faults.at(fault)));
  }
  const std::string where =
      result.hosts == 0 ? "" : fmt::format(" of {} host{}", result.hosts, result.hosts == 1 ? "" : "s");
  fmt::print(out, "faults       {} in {} training{} on {} ranks{}, seed {}: {}\n", counts.all_faults(), counts.runs,
             counts.runs == 1 ? "" : "s", result.ranks, where, result.seed, fmt::join(by_kind, ", "));
  fmt::print(out, "survived     {} without a restart of all ranks\n", counts.survived());
  if (deaths_of_all(counts) > 0) {
    fmt::print(out, "continued    {} of {} times from memory after the end of all ranks\n", counts.from_memory,
               deaths_of_all(counts));
  }
  if (counts.waited_ms.empty()) fmt::print(out, "waited       no rank logged a recovery\n");
  print_waits("waited", counts.waited_ms, "from a rank's notice", out);
  print_waits("", counts.after_loss_ms, "from a kill", out);
  print_waits("", counts.after_silence_ms, "from a stop or a cut, the timeout included", out);
}

void print_trouble(const ChaosResult& result, std::ostream& out) {
  const ChaosCounts& counts = result.counts;
  if (!counts.problem.empty()) fmt::print(out, "FAILED       {}\n", counts.problem);
  if (counts.restarts > 0) fmt::print(out, "FAILED       restarts of all ranks: {}\n", counts.restarts);
  const int lost = deaths_of_all(counts) - counts.from_memory;
  if (lost != 0) fmt::print(out, "FAILED       trainings that did not continue from memory: {}\n", lost);
  if (counts.unexplained > 0) {
    fmt::print(out, "FAILED       ranks that ended although no fault had hit them: {}\n", counts.unexplained);
  }
  for (const std::string& path : result.differs) fmt::print(out, "FAILED       {} differs\n", path);
  if (!result.logs.empty()) fmt::print(out, "logs         {}\n", result.logs);
  fmt::print(out, "the last lines of the log:\n{}\n", fmt::join(counts.last_lines, "\n"));
}

}  // namespace

int ChaosResult::troubles() const {
  return counts.failed + counts.restarts + counts.unexplained + static_cast<int>(differs.size()) +
         std::abs(deaths_of_all(counts) - counts.from_memory);
}

int print_chaos_report(const ChaosResult& result, std::ostream& out) {
  print_faults(result, out);
  const bool are_equal = result.differs.empty() && !result.found.empty() && result.counts.failed == 0;
  fmt::print(out, "lost         {}\n", are_equal ? "0 steps, 0 samples: the weights have the same bits" : "unknown");
  fmt::print(out, "weights      {}\nundisturbed  {}\n", result.found.empty() ? "none" : result.found,
             result.expected.at("model.safetensors"));
  if (are_equal && result.expected.size() > 1) {
    fmt::print(out, "checkpoints  {} more files equal, in each training\n", result.expected.size() - 1);
  }
  if (are_equal && result.troubles() == 0) return 0;
  print_trouble(result, out);
  return 1;
}

}  // namespace lockstep
