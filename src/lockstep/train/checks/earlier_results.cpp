#include "lockstep/train/checks/earlier_results.h"

#include <fmt/format.h>

#include <filesystem>

#include "lockstep/base/files/file_system.h"
#include "lockstep/checkpoint/files/output_folder.h"

namespace lockstep {

std::string earlier_results_line(const std::string& output_dir) {
  namespace fs = std::filesystem;
  constexpr const char* kModel = "model.safetensors";
  const auto checkpoints = OutputFolder(real_file_system(), output_dir).entries(/*with_foreign=*/true);
  if (!checkpoints.empty()) {
    return fmt::format(
        "{} already has {} of an earlier training, and this one starts from the beginning: it replaces checkpoints of "
        "the same steps, the saved model and its metrics, and --save-total-limit counts the other checkpoints. "
        "--resume-from-checkpoint true continues the earlier training; another --output-dir keeps its results",
        output_dir, fs::path(checkpoints.front().path).filename().string());
  }
  std::error_code ignored;
  if (!fs::exists(fs::path(output_dir) / kModel, ignored)) return "";
  return fmt::format(
      "{} already has {} of an earlier training, which left no checkpoint to resume from: the model of this one "
      "replaces it. Another --output-dir keeps it",
      output_dir, kModel);
}

void remove_combined_results(const std::string& output_dir) {
  std::error_code ignored;  // whoever cannot write there fails when it saves
  std::filesystem::remove(std::filesystem::path(output_dir) / kCombinedResults, ignored);
}

}  // namespace lockstep
