#include "tools/lockstep/chaos/fault.h"

#include <algorithm>

namespace lockstep {

const std::vector<std::pair<std::string, Fault>>& named_faults() {
  static const std::vector<std::pair<std::string, Fault>> kinds{
      {"kill", Fault::Kill}, {"spare", Fault::Spare}, {"pause", Fault::Pause}, {"stop", Fault::Stop},
      {"host", Fault::Host}, {"blink", Fault::Blink}, {"cut", Fault::Cut},     {"all", Fault::All}};
  return kinds;
}

std::optional<Fault> fault_of(const std::string& name) {
  const auto& all = named_faults();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& kind) { return kind.first == name; });
  return found == all.end() ? std::nullopt : std::optional<Fault>(found->second);
}

std::string name_of(Fault fault) {
  const auto& all = named_faults();
  return std::find_if(all.begin(), all.end(), [&](const auto& kind) { return kind.second == fault; })->first;
}

}  // namespace lockstep
