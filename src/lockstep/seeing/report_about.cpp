#include "lockstep/seeing/report_about.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "lockstep/seeing/chart/svg_text.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

std::string text_in(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// A number with blanks between groups of three digits; empty if there is none.
std::string count_in(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_integer()) return "";
  std::string digits = std::to_string(found->get<std::int64_t>());
  for (std::size_t at = digits.size(); at > 3; digits.insert(at, 1, ' ')) at -= 3;
  return digits;
}

// The parts that are not empty.
std::string listed(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
  }
  return text;
}

std::string with_unit(const std::string& count, const char* unit) { return count.empty() ? "" : count + " " + unit; }

std::string model_text(const Json& about) {
  const std::string all = count_in(about, "parameters"), trained = count_in(about, "trained_parameters");
  if (all == "0") return text_in(about, "model");
  return listed({text_in(about, "model"), with_unit(all, "parameters"),
                 trained == all ? "" : with_unit(trained, "of them trained")});
}

std::string arguments_text(const Json& about) {
  const auto changed = about.find("changed_arguments");
  if (changed == about.end() || !changed->is_object()) return "";
  std::vector<std::string> parts;
  for (const auto& [name, value] : changed->items()) {
    parts.push_back(
        name + " = " +
        (value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Json::error_handler_t::replace)));
  }
  return listed(parts);
}

std::string ranks_text(const Json& start, const Json& about) {
  const std::string hosts = count_in(about, "hosts"), engine = text_in(about, "engine");
  return listed({count_in(start, "world_size"),
                 hosts.empty() ? "" : "on " + hosts + (hosts == "1" ? " host" : " hosts"),
                 engine.empty() ? "" : "engine " + engine});
}

std::string versions_text(const Json& about) {
  const std::string lockstep = text_in(about, "lockstep"), libtorch = text_in(about, "libtorch");
  return listed({lockstep.empty() ? "" : "Lockstep " + lockstep, libtorch.empty() ? "" : "LibTorch " + libtorch});
}

void add_row(const char* name, const std::string& value, ReportRows& rows) {
  if (!value.empty()) rows.emplace_back(name, value);
}

bool starts_as_evaluation(const std::string& name) { return name.rfind("eval_", 0) == 0; }

bool is_time_of_evaluation(const std::string& name) {
  return name.find("_per_second") != std::string::npos || name.find("_runtime") != std::string::npos;
}

// The metrics of the newest evaluation.
std::string final_evaluation(const ReportData& data) {
  double newest = -1;
  for (const auto& [name, points] : data.logs) {
    if (starts_as_evaluation(name) && !points.empty()) newest = std::max(newest, points.back().first);
  }
  std::vector<std::string> parts;
  for (const auto& [name, points] : data.logs) {
    if (!starts_as_evaluation(name) || is_time_of_evaluation(name)) continue;
    if (points.empty() || points.back().first < newest) continue;
    parts.push_back(name + " " + short_number(points.back().second));
  }
  return parts.empty() ? "" : listed(parts) + fmt::format(" (step {:.0f})", newest);
}

std::string fact(const ReportData& data, const std::string& name) {
  for (const auto& [known, value] : data.facts) {
    if (known == name) return value;
  }
  return "";
}

// The lowest or highest value of a metric, and its step; empty if there is none.
std::string best_of(const ReportData& data, const char* metric, bool highest) {
  const auto found = data.logs.find(metric);
  if (found == data.logs.end()) return "";
  std::optional<std::pair<double, double>> best;
  for (const auto& point : found->second) {
    const bool is_better = !best || (highest ? point.second > best->second : point.second < best->second);
    if (std::isfinite(point.second) && is_better) best = point;
  }
  return best ? fmt::format("{} {} (step {:.0f})", metric, short_number(best->second), best->first) : "";
}

// By the metric that the training followed; without one, by loss and accuracy.
std::string best_evaluation(const ReportData& data) {
  if (const std::string best = fact(data, "best metric"); !best.empty()) {
    const auto metric = std::find_if(data.arguments.begin(), data.arguments.end(),
                                     [](const auto& one) { return one.first == "metric_for_best_model"; });
    const bool is_named = metric != data.arguments.end() && metric->second != "null" && !metric->second.empty();
    return listed({(is_named ? metric->second + " " : "") + best, fact(data, "best checkpoint")});
  }
  return listed({best_of(data, "eval_loss", /*highest=*/false), best_of(data, "eval_accuracy", /*highest=*/true)});
}

}  // namespace

ReportRows about_rows(const Json& start) {
  ReportRows rows;
  const auto found = start.find("about");
  if (found == start.end() || !found->is_object()) return rows;
  const Json& about = *found;
  add_row("model", model_text(about), rows);
  add_row("training data",
          listed({text_in(about, "train_file"), with_unit(count_in(about, "train_samples"), "samples")}), rows);
  add_row("evaluation data",
          listed({text_in(about, "eval_file"), with_unit(count_in(about, "eval_samples"), "samples")}), rows);
  add_row("command of a rank", text_in(about, "command"), rows);
  add_row("arguments other than the defaults", arguments_text(about), rows);
  add_row("ranks", ranks_text(start, about), rows);
  add_row("machine of the first rank",
          listed({text_in(about, "host"), text_in(about, "processor"), with_unit(count_in(about, "cores"), "cores")}),
          rows);
  add_row("versions", versions_text(about), rows);
  return rows;
}

ReportRows summary_rows(const ReportData& data) {
  ReportRows rows = data.about;
  add_row("duration", fact(data, "took"), rows);
  add_row("final evaluation", final_evaluation(data), rows);
  add_row("best evaluation", best_evaluation(data), rows);
  return rows;
}

}  // namespace lockstep
