#include "tools/chaos/fault.h"

#include <algorithm>

namespace lockstep {

const std::vector<std::pair<std::string, Fault>>& named_faults() {
  static const std::vector<std::pair<std::string, Fault>> kinds{
      {"kill", Fault::Kill}, {"spare", Fault::Spare}, {"pause", Fault::Pause}, {"stop", Fault::Stop},
      {"host", Fault::Host}, {"blink", Fault::Blink}, {"cut", Fault::Cut},     {"all", Fault::All}};
  return kinds;
}

const char* fault_descriptions() {
  return "kill: SIGKILL to a rank\n"
         "spare: SIGKILL to a process that waits for a lost rank's place, or joins\n"
         "pause: a rank stands still for up to 0.5 s\n"
         "stop: a rank stands still until the others give it up\n"
         "all, without --hosts: SIGKILL to all ranks at once, which start again from the launcher's memory\n"
         "host, with --hosts: SIGKILL to a host's launcher, and another host joins\n"
         "blink, with --hosts: a host's link is down for up to 0.5 s\n"
         "cut, with --hosts: a host's link is down until the others give the host up";
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
