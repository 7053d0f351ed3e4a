#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

enum class Fault {
  Kill,   ///< a rank gets SIGKILL
  Spare,  ///< a process that waits for, or takes, a lost rank's place gets SIGKILL
  Pause,  ///< a rank is stopped for less than the timeout of collectives
  Stop,   ///< a rank is stopped until the others have given it up
  Host,   ///< a host's launcher gets SIGKILL, and with it its ranks; later one starts on another host
  Blink,  ///< a host's link is down for less than the timeout
  Cut,    ///< a host's link is down until the others have given it up
  All,    ///< all ranks of the only host get SIGKILL at once: they start again, and continue from the launcher's memory
};

/// Whether the others notice a fault only by a timeout.
inline bool is_silent(Fault fault) { return fault == Fault::Stop || fault == Fault::Cut; }
/// Whether a fault needs a job of several hosts.
inline bool is_of_hosts(Fault fault) { return fault == Fault::Host || fault == Fault::Blink || fault == Fault::Cut; }

/// All kinds with their names, as --kinds has them.
const std::vector<std::pair<std::string, Fault>>& named_faults();
/// What each kind does, one a line.
const char* fault_descriptions();
/// The fault that has this name; nothing if no fault has it.
std::optional<Fault> fault_of(const std::string& name);
std::string name_of(Fault fault);

}  // namespace lockstep
