#include "lockstep/seeing/report_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/files/regular_file.h"
#include "lockstep/base/text/size_text.h"
#include "lockstep/checkpoint/checkpoint_search.h"
#include "lockstep/checkpoint/files/manifest.h"
#include "lockstep/detail/checkpoint/trainer_state.h"
#include "lockstep/seeing/metrics_reader.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostMetricsBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kMostStateBytes = std::uint64_t{256} << 20;

// The steps of the folders checkpoint-N, ascending.
std::vector<std::pair<std::int64_t, std::string>> checkpoint_folders(const std::string& folder) {
  std::vector<std::pair<std::int64_t, std::string>> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto step = step_of_checkpoint(entry.path().string());
    if (step && entry.is_directory()) found.emplace_back(*step, entry.path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::uint64_t bytes_in(const std::string& folder) {
  std::uint64_t bytes = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.is_regular_file(ignored)) bytes += entry.file_size(ignored);
  }
  return bytes;
}

std::string checkpoint_text(const std::string& path) {
  if (is_hugging_face_checkpoint(path)) return size_text(bytes_in(path)) + ", of Hugging Face's Trainer";
  try {
    const Checkpoint checkpoint(path, Verify::Sizes);
    std::uint64_t bytes = 0;
    for (const auto& file : checkpoint.manifest().files) bytes += file.second.bytes;
    return fmt::format("{}, written by {} rank{}", size_text(bytes), checkpoint.world_size(),
                       checkpoint.world_size() == 1 ? "" : "s");
  } catch (const Error& error) {
    return "damaged: " + error.happened();
  }
}

void add_best(const TrainerState& state, ReportData& data) {
  if (state.best_metric) data.facts.emplace_back("best metric", fmt::format("{:.6g}", *state.best_metric));
  if (!state.best_model_checkpoint.empty()) data.facts.emplace_back("best checkpoint", state.best_model_checkpoint);
}

void read_trainer_state(const std::string& path, ReportData& data) {
  const TrainerState state = parse_trainer_state(read_regular_file(path, kMostStateBytes), path);
  for (const LogEntry& entry : state.log_history) {
    for (const auto& [name, value] : entry.values) {
      data.logs[name].emplace_back(static_cast<double>(entry.step), value);
    }
  }
  data.facts.emplace_back("step", fmt::format("{} of {}", state.global_step, state.max_steps));
  data.facts.emplace_back("epoch", fmt::format("{:.2f} of {}", state.epoch, state.num_train_epochs));
  add_best(state, data);
}

// What metrics.jsonl does not have. @param path  of a trainer_state.json, which may be missing or damaged
void add_best_of(const std::string& path, ReportData& data) {
  try {
    if (fs::exists(path)) add_best(parse_trainer_state(read_regular_file(path, kMostStateBytes), path), data);
  } catch (const Error& error) {
    data.warnings.push_back("passed over " + path + ": " + error.happened());
  }
}

}  // namespace

ReportData read_report_data(const std::string& folder) {
  if (!fs::is_directory(folder)) {
    throw Error(folder + " is not a folder", folder, "give the output folder of a training (--output_dir)");
  }
  ReportData data;
  data.folder = folder;
  const auto checkpoints = checkpoint_folders(folder);
  for (const auto& [step, path] : checkpoints) data.checkpoints.emplace_back(step, checkpoint_text(path));
  std::vector<std::string> states{folder + "/trainer_state.json"};
  if (!checkpoints.empty()) states.push_back(checkpoints.back().second + "/trainer_state.json");
  const std::string metrics = folder + "/metrics.jsonl";
  const bool has_metrics = fs::exists(metrics);
  if (has_metrics) {
    data.source = metrics;
    if (read_metrics(read_regular_file(metrics, kMostMetricsBytes), metrics, data)) {
      const bool has_ended =
          std::any_of(data.facts.begin(), data.facts.end(), [](const auto& fact) { return fact.first == "ended"; });
      add_best_of(has_ended ? states.front() : states.back(), data);  // what the training saves last
      return data;
    }
    data.warnings.push_back(metrics + " holds no entry: did the training end before it began?");
  }
  std::optional<Error> damage;
  for (const std::string& path : states) {
    if (!fs::exists(path)) continue;
    try {
      read_trainer_state(path, data);
    } catch (const Error& error) {
      if (!damage) damage = error;
      data.warnings.push_back("passed over " + path + ": " + error.happened());
      continue;
    }
    data.source = path;
    return data;
  }
  if (damage) throw Error(*damage);
  if (has_metrics) {
    throw Error(metrics + " holds no entry, and there is no trainer_state.json: there is nothing to report", folder,
                "read the training's output; it writes its first entry when it begins");
  }
  throw Error(folder + " holds neither metrics.jsonl nor trainer_state.json", folder,
              "give the output folder of a training (--output_dir)");
}

}  // namespace lockstep
