#include "lockstep/base/random/random_bits.h"

#include <random>

namespace lockstep {

std::uint64_t random_bits() {
  std::random_device source;
  const std::uint64_t high = source();
  return high << 32 | source();
}

}  // namespace lockstep
