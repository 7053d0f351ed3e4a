#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace lockstep {

/// "1 rank", "2 ranks". @param what  a noun whose plural ends in s
inline std::string count_of(std::int64_t number, const char* what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

}  // namespace lockstep
