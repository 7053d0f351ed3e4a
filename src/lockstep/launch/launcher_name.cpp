#include "lockstep/launch/launcher_name.h"

#include <fmt/format.h>
#include <unistd.h>

#include "lockstep/base/processor/topology.h"

namespace lockstep {

std::string launcher_name() { return fmt::format("{} (pid {})", host_name(), ::getpid()); }

std::string at_launcher(const std::string& what) {
  return fmt::format("the launcher on {}, {}", launcher_name(), what);
}

}  // namespace lockstep
