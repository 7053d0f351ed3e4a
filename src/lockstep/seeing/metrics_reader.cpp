#include "lockstep/seeing/metrics_reader.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "lockstep/base/text/printable.h"
#include "lockstep/checkpoint/files/json_number.h"
#include "lockstep/seeing/progress_bar.h"
#include "lockstep/seeing/report_about.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

std::string time_text(double seconds) {
  constexpr double kLatest = 253'402'300'799;  // the end of the year 9999
  if (!(seconds >= 0 && seconds <= kLatest)) return fmt::format("{} s after 1970", seconds);
  const auto time = static_cast<std::time_t>(seconds);
  std::tm local{};
  ::localtime_r(&time, &local);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", local);
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string passed_over(const std::vector<std::int64_t>& lines, const std::string& path) {
  constexpr std::size_t kShown = 10;
  const std::size_t shown = std::min(lines.size(), kShown);
  return fmt::format("passed over {} of {}, which could not be read: line{} {}{}; cut off by a crash?",
                     lines.size() == 1 ? "a line" : fmt::format("{} lines", lines.size()), path,
                     lines.size() == 1 ? "" : "s",
                     fmt::join(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                     lines.size() > shown ? ", ..." : "");
}

std::string times(int count) { return count == 1 ? "once" : fmt::format("{} times", count); }

// Whether a process that joined the running training in the first rank's place wrote this: it had no group yet.
bool is_successors_start(const Json& start) {
  const Json about = start.value("about", Json());
  if (start["kind"] != "start" || start["step"] == 0 || !about.is_object() || about.contains("engine")) return false;
  const Json changed = about.value("changed_arguments", Json());
  return changed.is_object() && changed.value("survive_lost_ranks", Json()) == true;
}

class MetricsReader {
 public:
  explicit MetricsReader(ReportData& data) : data_(data) {}

  void read(const std::string& text, const std::string& path) {
    std::vector<std::int64_t> unreadable;
    std::int64_t number = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view line(text.data() + at, end - at);
      at = end + 1;
      ++number;
      if (line.empty()) continue;
      const Json entry = Json::parse(line, nullptr, false);
      const bool is_entry = entry.is_object() && entry.value("kind", Json()).is_string() &&
                            entry.value("step", Json()).is_number() && entry.value("time", Json()).is_number();
      is_entry ? take(entry) : unreadable.push_back(number);
    }
    if (!unreadable.empty()) data_.warnings.push_back(passed_over(unreadable, path));
    finish();
  }
  bool has_entries() const { return first_time_.has_value(); }

 private:
  void take(const Json& entry) {
    const auto kind = entry["kind"].get<std::string>();
    const auto step = entry["step"].get<double>();
    const auto time = entry["time"].get<double>();
    if (kind == "start" && step == 0) forget();
    if (!first_time_) first_time_ = time;
    const bool continues = kind != "start" || is_successors_start(entry);
    if (continues && last_time_ && !ended_) took_s_ += time - *last_time_;
    last_time_ = time;
    last_step_ = step;
    if (kind == "start" || kind == "end") ended_ = kind == "end";  // an evaluation may follow the end
    if (kind == "start") {
      drop_later(step);
      continues ? void(++successors_) : take_start(entry);
    }
    if (kind == "log") take_log(entry, step);
    if (kind == "phases") take_phases(entry, step);
  }

  // A training that starts over: what stands before it belongs to another one.
  void forget() {
    for (auto* series : {&data_.logs, &data_.rates, &data_.memory}) series->clear();
    data_.warnings.clear();
    phases_.clear();
    first_time_.reset();
    last_time_.reset();
    took_s_ = 0;
    sessions_ = successors_ = 0;
  }

  void drop_later(double step) {
    for (auto* series : {&data_.logs, &data_.rates, &data_.memory}) {
      for (auto& item : *series) {
        auto& points = item.second;
        points.erase(std::remove_if(points.begin(), points.end(), [&](const auto& p) { return p.first > step; }),
                     points.end());
      }
    }
    phases_.erase(phases_.upper_bound(step), phases_.end());
  }

  void take_start(const Json& entry) {
    ++sessions_;
    if (const auto found = entry.find("max_steps"); found != entry.end()) max_steps_ = text_of(*found);
    if (const auto found = entry.find("world_size"); found != entry.end()) world_size_ = text_of(*found);
    data_.about = about_rows(entry);
    const auto arguments = entry.find("arguments");
    if (arguments == entry.end() || !arguments->is_object()) return;
    data_.arguments.clear();
    for (const auto& [name, value] : arguments->items()) data_.arguments.emplace_back(name, text_of(value));
  }

  void take_log(const Json& entry, double step) {
    for (const auto& [name, value] : entry.items()) {
      if (name == "kind" || name == "step" || name == "time") continue;
      const auto number = number_in(value);
      if (!number) continue;
      data_.logs[name].emplace_back(step, *number);
      if (!std::isfinite(*number)) {
        data_.warnings.push_back(fmt::format("{} is {} at step {}", printable(name), printable(text_of(value)), step));
      }
    }
  }

  void take_phases(const Json& entry, double step) {
    for (const auto& [name, value] : entry.items()) {
      const auto number = number_in(value);
      if (!number || name == "step" || name == "time" || name == "elapsed_s") continue;
      if (name == "samples_per_second" || name == "steps_per_second") data_.rates[name].emplace_back(step, *number);
      if (name == "resident_bytes" || name == "peak_resident_bytes") data_.memory[name].emplace_back(step, *number);
      const bool is_phase = name.size() > 2 && name.compare(name.size() - 2, 2, "_s") == 0;
      if (is_phase) phases_[step][name.substr(0, name.size() - 2)] += *number;
    }
  }

  void finish() {
    std::map<std::string, double> sums;
    for (const auto& at_step : phases_) {
      for (const auto& [phase, seconds] : at_step.second) sums[phase] += seconds;
    }
    data_.phases.assign(sums.begin(), sums.end());
    if (!first_time_) return;
    data_.facts.emplace_back("started", time_text(*first_time_));
    data_.facts.emplace_back(ended_ ? "ended" : "last heard of", time_text(*last_time_));
    data_.facts.emplace_back("took", clock_text(took_s_));
    data_.facts.emplace_back("step", fmt::format("{:.0f} of {}", last_step_, max_steps_.empty() ? "?" : max_steps_));
    if (!world_size_.empty()) data_.facts.emplace_back("ranks", world_size_);
    if (sessions_ > 1) data_.facts.emplace_back("resumed from a checkpoint", times(sessions_ - 1));
    if (successors_ > 0) data_.facts.emplace_back("first rank lost and replaced", times(successors_));
  }

  ReportData& data_;
  std::optional<double> first_time_;
  std::optional<double> last_time_;
  double took_s_ = 0;  // without what passed between two sessions, and after the end
  double last_step_ = 0;
  bool ended_ = false;
  int sessions_ = 0;
  int successors_ = 0;  // of the first rank, while the others continued
  std::string max_steps_;
  std::string world_size_;
  std::map<double, std::map<std::string, double>> phases_;  // by step
};

}  // namespace

bool read_metrics(const std::string& text, const std::string& path, ReportData& data) {
  MetricsReader reader(data);
  reader.read(text, path);
  return reader.has_entries();
}

}  // namespace lockstep
