#include "lockstep/base/text/size_text.h"

#include <fmt/format.h>

namespace lockstep {

std::string size_text(std::uint64_t bytes) {
  const auto number = static_cast<double>(bytes);
  if (bytes < 1000) return fmt::format("{} bytes", bytes);
  if (bytes < 1'000'000) return fmt::format("{:.1f} kB", number / 1e3);
  if (bytes < 1'000'000'000) return fmt::format("{:.1f} MB", number / 1e6);
  return fmt::format("{:.1f} GB", number / 1e9);
}

std::string memory_text(std::uint64_t bytes) {
  const auto number = static_cast<double>(bytes);
  if (bytes < std::uint64_t{1} << 20) return fmt::format("{:.1f} KiB", number / (1 << 10));
  if (bytes < std::uint64_t{1} << 30) return fmt::format("{:.1f} MiB", number / (1 << 20));
  if (bytes < std::uint64_t{1} << 40) return fmt::format("{:.2f} GiB", number / (1 << 30));
  if (bytes < std::uint64_t{1} << 50) return fmt::format("{:.2f} TiB", number / static_cast<double>(1ULL << 40));
  return fmt::format("{:.2f} PiB", number / static_cast<double>(1ULL << 50));
}

}  // namespace lockstep
