#pragma once

#include <string>

namespace lockstep {

/// Distinguishes this launcher from others, also on one host: "host-a (pid 4711)".
std::string launcher_name();

/// The `where` of this launcher's errors: "the launcher on host-a (pid 4711), rendezvous".
std::string at_launcher(const std::string& what);

}  // namespace lockstep
