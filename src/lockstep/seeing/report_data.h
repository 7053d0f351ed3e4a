#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// The data about a training in its output folder.
struct ReportData {
  using Points = std::vector<std::pair<double, double>>;  ///< step and value

  std::string folder;
  std::string source;                                             ///< the file that was read
  std::vector<std::pair<std::string, std::string>> facts;         ///< started, ended, ranks, steps...
  std::vector<std::pair<std::string, std::string>> about;         ///< model, data, command, machine...
  std::vector<std::pair<std::string, std::string>> arguments;     ///< name and value as text
  std::map<std::string, Points> logs;                             ///< by the name in the log
  std::map<std::string, Points> rates;                            ///< "samples_per_second", "steps_per_second"
  std::map<std::string, Points> memory;                           ///< bytes: "resident_bytes", "peak_resident_bytes"
  std::vector<std::pair<std::string, double>> phases;             ///< seconds by phase, over the whole training
  std::vector<std::pair<std::int64_t, std::string>> checkpoints;  ///< step, and a description
  std::vector<std::string> warnings;                              ///< NaN losses, unreadable lines
};

/// Reads `metrics.jsonl` in `folder`. If it does not exist, reads `trainer_state.json` of the folder or of its last
/// checkpoint, which Hugging Face's Trainer writes, too. If a training went back to a checkpoint, leaves out what the
/// earlier run logged after it.
/// @throws Error  if neither file exists or can be read
ReportData read_report_data(const std::string& folder);

}  // namespace lockstep
