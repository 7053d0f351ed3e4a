#pragma once

#include <algorithm>
#include <vector>

#include "tests/comm/contract.h"

namespace lockstep {

/// One way to run each engine, for tests that wait until a timeout has passed: three ranks, as processes if the engine
/// can. How long a group waits does not depend on what its ranks are; that the others notice it does, and quick tests
/// of failures run in all placements.
inline std::vector<Placement> placements_for_timeouts() {
  std::vector<Placement> chosen;
  for (const Placement& placement : placements({3})) {
    const auto same = std::find_if(chosen.begin(), chosen.end(),
                                   [&](const Placement& other) { return other.engine == placement.engine; });
    if (same == chosen.end()) {
      chosen.push_back(placement);
    } else if (placement.processes) {
      *same = placement;
    }
  }
  return chosen;
}

}  // namespace lockstep
