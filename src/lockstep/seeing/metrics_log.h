#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// `metrics.jsonl`: one JSON object per line, so that any tool can read it and a crash leaves earlier lines readable.
/// Each has "time" (seconds since 1970), "kind" and "step"; all other values are flat:
///
///     {"kind":"start","step":0,"time":...,"max_steps":64,"world_size":2,"arguments":{...}}
///     {"kind":"log","step":10,"time":...,"epoch":0.5,"loss":0.69,"learning_rate":5e-05}
///     {"kind":"phases","step":10,"time":...,"compute_s":1.9,"samples_per_second":160.2,"resident_bytes":...}
///     {"kind":"save","step":10,"time":...,"folder":"..."}
///     {"kind":"end","step":64,"time":...}
///
/// A training that resumes from a checkpoint writes another "start" with its step: earlier entries with later steps
/// belong to the abandoned run. Not thread-safe.
class MetricsLog {
 public:
  /// Opens the file for appending; ends a line that a crash cut off. @throws Error  if it cannot be opened
  explicit MetricsLog(const std::string& path);

  /// Appends one line, in one write. @param values  a JSON object; NaN and infinite numbers become texts
  /// @throws Error  if it cannot be written
  void write(const std::string& kind, std::int64_t step, const nlohmann::json& values);

 private:
  std::string path_;
  UniqueFd fd_;
};

}  // namespace lockstep
