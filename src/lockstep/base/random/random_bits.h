#pragma once

#include <cstdint>

namespace lockstep {

/// 64 bits that the system draws: enough for a name that no other process chooses.
std::uint64_t random_bits();

}  // namespace lockstep
