#pragma once

#include <cstdint>

namespace lockstep {

/// Up to this many bytes of all ranks together, only latency counts, and three stages have more of it than one.
constexpr std::int64_t kMostDirectBytes = 256 << 10;

/// The part of a large tensor that passes through all stages at a time.
constexpr std::int64_t kStagePieceBytes = 4 << 20;

}  // namespace lockstep
