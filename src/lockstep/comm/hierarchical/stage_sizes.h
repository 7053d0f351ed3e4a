#pragma once

#include <cstdint>

namespace lockstep {

/// Up to this many bytes of all ranks together, latency is all there is, and three stages have more of it than one.
constexpr std::int64_t kMostDirectBytes = 256 << 10;

/// Of a large tensor, what goes through all stages at a time.
constexpr std::int64_t kStagePieceBytes = 4 << 20;

}  // namespace lockstep
