#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "lockstep/base/random/mix_bits.h"

namespace lockstep {

/// Mixes the bits of all options of parameter groups into `number`, by which ranks see whether they have the same.
inline void mix_options(std::uint64_t& number, const std::vector<std::map<std::string, double>>& groups) {
  for (const auto& group : groups) {
    mix_into(number, group.size());
    for (const auto& option : group) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, &option.second, sizeof(bits));
      mix_into(number, bits);
    }
  }
}

}  // namespace lockstep
