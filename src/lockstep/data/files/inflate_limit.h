#pragma once

#include <cstddef>

namespace lockstep {

/// The variable that sets `most_inflated_bytes`.
constexpr const char* kInflateLimitVariable = "LOCKSTEP_INFLATE_LIMIT_MB";

/// The size to which a compressed file, or a page of one, may inflate in memory: 64 MiB, or 100 times its bytes if that
/// is more, and at most 4 GiB, unless LOCKSTEP_INFLATE_LIMIT_MB sets another limit. Texts and images shrink 3 to 20
/// times; a file that shrinks more is hardly either, and could fill the memory. @throws Error  if the variable is not a
/// number
std::size_t most_inflated_bytes(std::size_t compressed_bytes);

}  // namespace lockstep
