#include "lockstep/detail/checkpoint/checkpoint_names.h"

namespace lockstep {

std::optional<std::int64_t> CheckpointNames::step_in(const std::string& name) const {
  if (!is_numbered_ || name.compare(0, name_.size(), name_) != 0) return std::nullopt;
  const std::string digits = name.substr(name_.size());
  if (digits.empty() || digits.size() > 18 || digits.find_first_not_of("0123456789") != std::string::npos) {
    return std::nullopt;
  }
  return std::stoll(digits);
}

}  // namespace lockstep
