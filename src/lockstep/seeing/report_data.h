#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// What is known of a training from its output folder.
struct ReportData {
  using Points = std::vector<std::pair<double, double>>;  ///< step and value

  std::string folder;
  std::string source;                                             ///< the file that was read
  std::vector<std::pair<std::string, std::string>> facts;         ///< started, ended, ranks, steps...
  std::vector<std::pair<std::string, std::string>> arguments;     ///< name and value as text
  std::map<std::string, Points> logs;                             ///< by the name in the log
  std::map<std::string, Points> rates;                            ///< "samples_per_second", "steps_per_second"
  std::map<std::string, Points> memory;                           ///< bytes: "resident_bytes", "peak_resident_bytes"
  std::vector<std::pair<std::string, double>> phases;             ///< seconds by phase, over all
  std::vector<std::pair<std::int64_t, std::string>> checkpoints;  ///< step, and what can be said of it
  std::vector<std::string> warnings;                              ///< NaN losses, lines that could not be read
};

/// Reads `metrics.jsonl` of `folder`; without one `trainer_state.json` of the folder or of its last checkpoint, so that
/// what Hugging Face's Trainer wrote is shown, too. Where a training went back to a checkpoint, what came after it in
/// the run before is left out.
/// @throws Error  if there is neither, or none can be read
ReportData read_report_data(const std::string& folder);

}  // namespace lockstep
