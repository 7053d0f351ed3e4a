#pragma once

#include <cstdlib>

namespace lockstep {

/// How much a test does: `small` in every run of the suite, `full` if LOCKSTEP_LONG_TESTS is set, as by
/// `scripts/test --long`. For tests whose answer does not depend on the number, only the chance to meet something rare.
template <typename Number>
Number test_size(Number small, Number full) {
  return std::getenv("LOCKSTEP_LONG_TESTS") != nullptr ? full : small;
}

}  // namespace lockstep
