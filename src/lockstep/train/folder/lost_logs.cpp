#include "lockstep/train/folder/lost_logs.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

constexpr std::streamoff kReadBytes = 256 << 10;

// The file's last lines that are JSON objects.
std::vector<nlohmann::json> last_rows(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::vector<nlohmann::json> rows;
  if (!file) return rows;
  const auto size = static_cast<std::streamoff>(file.tellg());
  file.seekg(std::max<std::streamoff>(0, size - kReadBytes));
  for (std::string line; std::getline(file, line);) {
    nlohmann::json row = nlohmann::json::parse(line, nullptr, false);
    const bool is_row = row.is_object() && row.value("kind", nlohmann::json()).is_string() &&
                        row.value("step", nlohmann::json()).is_number_integer();
    if (is_row) rows.push_back(std::move(row));
  }
  return rows;
}

bool is_row_of(const nlohmann::json& row, const LogEntry& entry) {
  if (row["kind"] != "log" || row["step"].get<std::int64_t>() != entry.step) return false;
  return std::any_of(entry.values.begin(), entry.values.end(),
                     [&](const auto& value) { return value.first != "epoch" && row.contains(value.first); });
}

}  // namespace

std::optional<std::vector<LogEntry>> lost_logs(const std::string& path, const std::vector<LogEntry>& history) {
  const std::vector<nlohmann::json> rows = last_rows(path);
  if (rows.empty()) return std::nullopt;
  const auto last_start =
      std::find_if(rows.rbegin(), rows.rend(), [](const auto& row) { return row["kind"] == "start"; });
  const std::int64_t started_at = last_start == rows.rend() ? 0 : (*last_start)["step"].get<std::int64_t>();
  auto first = history.end();
  while (first != history.begin()) {
    const LogEntry& entry = *std::prev(first);
    const auto is_it = [&](const nlohmann::json& row) { return is_row_of(row, entry); };
    if (entry.step < started_at || (entry.step == started_at && started_at > 0)) break;
    if (std::any_of(rows.rbegin(), rows.rend(), is_it)) break;
    --first;
  }
  return std::vector<LogEntry>(first, history.end());
}

Logs logs_of(const LogEntry& entry) {
  Logs logs;
  const auto add = [&](const std::string& name) {
    if (const auto found = entry.values.find(name); found != entry.values.end()) logs.emplace_back(*found);
  };
  for (const char* const name : {"loss", "grad_norm", "learning_rate"}) add(name);
  for (const auto& [name, value] : entry.values) {
    if (name != "epoch" && !find_log(logs, name)) logs.emplace_back(name, value);
  }
  add("epoch");
  return logs;
}

}  // namespace lockstep
