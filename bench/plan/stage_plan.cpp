#include "bench/plan/stage_plan.h"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/text/size_text.h"

namespace lockstep {
namespace {

constexpr std::int64_t kAdamBytes = 8;  // of state for each parameter: the measured step is Adam's
constexpr std::size_t kStages = 4;

StageRow row_of_stage(const StageQuestion& question, const ClusterShape& shape, int stage, int ranks_per_host) {
  StageRow row;
  row.stage = stage;
  row.ranks_per_host = ranks_per_host;
  row.step_s = forecast_stage(question.profile, shape, question.link, stage).step_s;
  row.bytes = memory_of_host(question.model, kAdamBytes, stage, shape.hosts, ranks_per_host).total();
  row.fits = row.bytes <= question.host_bytes;
  return row;
}

std::vector<StageRow> rows_of(const StageQuestion& question, const ClusterShape& shape, int ranks_per_host) {
  std::vector<StageRow> rows;
  for (const int stage : {0, 1, 2, 3}) {
    if (stage > 0 && shape.hosts * ranks_per_host == 1) break;  // one rank shares nothing out
    if (stage > 2 && shape.hosts == 1) break;                   // its ranks have one copy of the weights
    rows.push_back(row_of_stage(question, shape, stage, ranks_per_host));
  }
  return rows;
}

std::string text_of_bytes(std::int64_t bytes) { return size_text(static_cast<std::uint64_t>(bytes)); }

}  // namespace

std::vector<StageRow> stages_of(const StageQuestion& question, const ClusterShape& shape) {
  return rows_of(question, shape, shape.ranks_per_host);
}

std::optional<StageRow> choose_stage(const StageQuestion& question, const ClusterShape& shape) {
  for (int ranks = shape.ranks_per_host; ranks > 0; --ranks) {
    std::optional<StageRow> best;
    for (const StageRow& row : rows_of(question, shape, ranks)) {
      if (row.fits && (!best || row.step_s < best->step_s)) best = row;
    }
    if (best) return best;
  }
  return std::nullopt;
}

std::string choice_text(const std::optional<StageRow>& choice) {
  if (!choice) return "fits in no stage: more memory, more hosts or a smaller batch";
  return fmt::format("stage {}, {} rank{} a host, {} a host", choice->stage, choice->ranks_per_host,
                     choice->ranks_per_host == 1 ? "" : "s", text_of_bytes(choice->bytes));
}

nlohmann::ordered_json json_of_stages(const StageQuestion& question, const ClusterShape& shape) {
  nlohmann::ordered_json out{{"stages", nlohmann::ordered_json::array()}};
  for (const StageRow& row : stages_of(question, shape)) {
    out["stages"].push_back(
        {{"stage", row.stage}, {"step_ms", row.step_s * 1e3}, {"bytes_per_host", row.bytes}, {"fits", row.fits}});
  }
  const auto choice = choose_stage(question, shape);
  if (choice) {
    out["choice"] = {{"stage", choice->stage},
                     {"nproc_per_node", choice->ranks_per_host},
                     {"step_ms", choice->step_s * 1e3},
                     {"bytes_per_host", choice->bytes}};
  } else {
    out["choice"] = nullptr;
  }
  return out;
}

std::string table_of_stages(const StageQuestion& question, const std::vector<ClusterShape>& shapes) {
  std::string text = fmt::format("{:>6} {:>6} | {:^21} | {:^21} | {:^21} | {:^21} | choice for {} a host\n", "", "",
                                 "stage 0, nothing", "1, optimizer", "2, and gradients", "3, and weights",
                                 text_of_bytes(question.host_bytes));
  text += fmt::format("{:>6} {:>6} |", "hosts", "ranks");
  for (std::size_t i = 0; i < kStages; ++i) text += fmt::format(" {:>9} {:>11} |", "step ms", "a host");
  text += "\n";
  for (const ClusterShape& shape : shapes) {
    text += fmt::format("{:>6} {:>6} |", shape.hosts, shape.ranks());
    const std::vector<StageRow> rows = stages_of(question, shape);
    for (std::size_t i = 0; i < kStages; ++i) {
      text += i < rows.size() ? fmt::format(" {:>9.1f} {:>11} |", rows[i].step_s * 1e3, text_of_bytes(rows[i].bytes))
                              : fmt::format(" {:>9} {:>11} |", "-", "-");
    }
    text += " " + choice_text(choose_stage(question, shape)) + "\n";
  }
  return text;
}

std::int64_t memory_of_this_host() {
  const std::int64_t pages = ::sysconf(_SC_PHYS_PAGES);
  const std::int64_t bytes = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && bytes > 0 ? pages * bytes : 0;
}

}  // namespace lockstep
