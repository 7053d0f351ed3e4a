#include "lockstep/train/checks/earlier_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "lockstep/base/files/file_system.h"
#include "lockstep/checkpoint/files/output_folder.h"

namespace lockstep {
namespace {

// "checkpoint-6, checkpoint-3 and 4 others"
std::string names_of(const std::vector<OutputFolder::Entry>& checkpoints) {
  constexpr std::size_t kMost = 3;
  std::string names;
  for (std::size_t i = 0; i < std::min(kMost, checkpoints.size()); ++i) {
    names += (i == 0 ? "" : ", ") + std::filesystem::path(checkpoints[i].path).filename().string();
  }
  return checkpoints.size() > kMost ? fmt::format("{} and {} others", names, checkpoints.size() - kMost) : names;
}

}  // namespace

std::string earlier_results_line(const std::string& output_dir, std::optional<std::int64_t> limit) {
  namespace fs = std::filesystem;
  constexpr const char* kModel = "model.safetensors";
  const auto checkpoints = OutputFolder(real_file_system(), output_dir).entries(/*with_foreign=*/true);
  if (!checkpoints.empty()) {
    const std::string removal =
        limit
            ? fmt::format(". --save-total-limit {} counts those of both trainings, and removes the earlier ones first",
                          *limit)
            : std::string();
    return fmt::format(
        "{} already has {} of an earlier training, but this one starts from the beginning: it replaces checkpoints of "
        "the same steps, the saved model and its metrics{}. --resume-from-checkpoint true continues the earlier "
        "training; another --output-dir keeps its results",
        output_dir, names_of(checkpoints), removal);
  }
  std::error_code ignored;
  if (!fs::exists(fs::path(output_dir) / kModel, ignored)) return "";
  return fmt::format(
      "{} already has {} of an earlier training, which left no checkpoint to resume from: this training's model "
      "replaces it. Another --output-dir keeps it",
      output_dir, kModel);
}

void remove_combined_results(const std::string& output_dir) {
  std::error_code ignored;  // whoever cannot write there fails when it saves
  std::filesystem::remove(std::filesystem::path(output_dir) / kCombinedResults, ignored);
}

std::string remove_results_of_replaced_model(const std::string& output_dir, const std::set<std::string>& written) {
  std::string names;
  for (const char* split : {"train", "eval", "test", "predict"}) {
    const std::string name = std::string(split) + "_results.json";
    std::error_code ignored;
    const bool is_gone = written.count(split) == 0 && std::filesystem::remove(output_dir + "/" + name, ignored);
    if (is_gone) names += (names.empty() ? "" : ", ") + name;
  }
  return names.empty() ? "" : fmt::format("Removed from {}: {}, of the model that was replaced.", output_dir, names);
}

}  // namespace lockstep
