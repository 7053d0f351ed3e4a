#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/detail/checkpoint/trainer_state.h"
#include "lockstep/train/trainer_callback.h"

namespace lockstep {

/// The entries of a training's log that `metrics.jsonl` lacks, because the first rank was lost before it had written
/// them. Its last 256 KiB are read. @param path  of the file
/// @param history  of the training. @return  nothing if the file does not exist, or has no entry there
std::optional<std::vector<LogEntry>> lost_logs(const std::string& path, const std::vector<LogEntry>& history);

/// An entry in the order in which a training logs it.
Logs logs_of(const LogEntry& entry);

}  // namespace lockstep
