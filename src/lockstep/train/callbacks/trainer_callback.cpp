#include "lockstep/train/trainer_callback.h"

namespace lockstep {

std::optional<double> find_log(const Logs& logs, const std::string& name) {
  for (const auto& [key, value] : logs) {
    if (key == name) return value;
  }
  return {};
}

}  // namespace lockstep
