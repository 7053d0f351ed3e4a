#include "lockstep/data/files/inflate_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"

namespace lockstep {

std::size_t most_inflated_bytes(std::size_t compressed_bytes) {
  constexpr std::size_t kMebibyte = std::size_t{1} << 20;
  constexpr std::size_t kUsualExpansion = 100;
  constexpr std::int64_t kLargestLimit = std::int64_t{1} << 40;
  const auto limit = env_int(kInflateLimitVariable);
  if (!limit) return std::min(std::max(64 * kMebibyte, kUsualExpansion * compressed_bytes), 4096 * kMebibyte);
  if (*limit < 1 || *limit > kLargestLimit) {
    throw Error(fmt::format("{} is {}", kInflateLimitVariable, *limit), "environment",
                "give a number of MiB from 1 on");
  }
  return static_cast<std::size_t>(*limit) * kMebibyte;
}

}  // namespace lockstep
