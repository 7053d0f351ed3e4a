#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"
#include "lockstep/seeing/metrics_reader.h"

namespace lockstep::fuzz {

void run_metrics(std::string_view bytes) {
  ReportData data;
  const bool has_entries = read_metrics(std::string(bytes), "metrics.jsonl", data);
  LOCKSTEP_HOLDS(has_entries == !data.facts.empty());
  for (const auto& series : data.logs) LOCKSTEP_HOLDS(!series.second.empty() || has_entries);
}

}  // namespace lockstep::fuzz
