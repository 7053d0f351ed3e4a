#pragma once

#include <string>

namespace lockstep {

/// A warning for a training that starts from the beginning, if `output_dir` has checkpoints or a model of an earlier
/// one: it names the newest, and how to continue or to keep it. Empty for any other folder.
std::string earlier_results_line(const std::string& output_dir);

/// The file that has the metrics of training, evaluation and prediction together.
constexpr const char* kCombinedResults = "all_results.json";
/// Removes it for a training that starts from the beginning: it would mix metrics of two models. Each is in a file of
/// its own, too, which stays until it is written again.
void remove_combined_results(const std::string& output_dir);

}  // namespace lockstep
