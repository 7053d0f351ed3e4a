#pragma once

#include <cstdlib>
#include <numeric>
#include <string>

namespace lockstep {

/// How much a test does: `small` in every run of the suite, `full` if LOCKSTEP_LONG_TESTS is set, as by
/// `scripts/test --long`. For tests whose answer does not depend on the number, only the chance to meet something rare.
template <typename Number>
Number test_size(Number small, Number full) {
  return std::getenv("LOCKSTEP_LONG_TESTS") != nullptr ? full : small;
}

/// Whether a test called `name` runs the case `index` of many: each fifth in the suite, and all with
/// LOCKSTEP_LONG_TESTS. Tests of other names may run other fifths.
inline bool runs_case(int index, const std::string& name) {
  const int every = test_size(5, 1);
  return index % every == std::accumulate(name.begin(), name.end(), 0) % every;
}

}  // namespace lockstep
