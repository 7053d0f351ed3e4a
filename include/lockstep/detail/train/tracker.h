#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/train/trainer_callback.h"

namespace lockstep {

/// A destination of an Accelerator's logs. Exists on the main process only.
class Tracker {
 public:
  virtual ~Tracker() = default;
  virtual std::string name() const = 0;
  /// Stores the hyper-parameters before the training. @param config  a JSON object
  virtual void store_init_configuration(const nlohmann::json& config) = 0;
  virtual void log(const Logs& values, std::int64_t step) = 0;
  virtual void finish() {}
};

/// Checks the names of `log_with`: "tensorboard", "json", or "all" for both. Each name is in the result once.
/// @throws Error  for another name
std::vector<std::string> tracker_names(const std::vector<std::string>& log_with);

/// Makes `folder` and the tracker `name` in it. "tensorboard" writes an event file: numbers under their own names, the
/// configuration as text, and `hparams.yml` beside it. "json" writes `metrics.jsonl`, for `lockstep report` too.
/// @throws Error  if it cannot be written
std::unique_ptr<Tracker> make_tracker(const std::string& name, const std::string& folder);

/// A tracker that records nothing, for processes that do not log.
Tracker& silent_tracker();

}  // namespace lockstep
