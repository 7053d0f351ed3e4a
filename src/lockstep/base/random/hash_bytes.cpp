#include "lockstep/base/random/hash_bytes.h"

#include <fmt/format.h>

namespace lockstep {

std::string hash_text(const void* data, std::size_t bytes, std::uint64_t seed) {
  return fmt::format("{:016x}", hash_bytes(data, bytes, seed));
}

}  // namespace lockstep
