#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

namespace lockstep {

/// A warning for a training that starts from the beginning, if `output_dir` has checkpoints or a model of an earlier
/// one: it names the newest, what replaces or removes it, and how to continue or to keep it. Empty for any other
/// folder.
/// @param limit  save_total_limit, which counts them all
std::string earlier_results_line(const std::string& output_dir, std::optional<std::int64_t> limit = std::nullopt);

/// The file that has the metrics of training, evaluation and prediction together.
constexpr const char* kCombinedResults = "all_results.json";
/// Removes it for a training that starts from the beginning: it would mix metrics of two models. Each is in a file of
/// its own, too, which stays as long as its model.
void remove_combined_results(const std::string& output_dir);

/// Removes metrics of the model that another one has replaced, those of splits that are not in `written`: beside the
/// new model they would be taken for its own.
/// @return  a line that names them; empty if there were none
std::string remove_results_of_replaced_model(const std::string& output_dir, const std::set<std::string>& written);

}  // namespace lockstep
