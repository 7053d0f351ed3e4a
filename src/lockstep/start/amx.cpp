#include "lockstep/start/amx.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace lockstep {
namespace {

constexpr std::uint32_t kTileLeaf = 0x1d;
constexpr std::uint32_t kBf16 = 1U << 22;
constexpr std::uint32_t kTile = 1U << 24;
constexpr std::uint32_t kInt8 = 1U << 25;
constexpr std::uint64_t kTileState = 3U << 17;
constexpr std::uint32_t kLowHalf = 0xffff;

#if defined(__x86_64__)
std::uint64_t enabled_state() {
  constexpr std::uint32_t kHasXgetbv = 1U << 27;
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kHasXgetbv) == 0) return 0;
  __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
  return std::uint64_t{d} << 32 | a;
}

AmxLeaves leaves_of_processor() {
  AmxLeaves leaves;
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  leaves.highest_leaf = __get_cpuid_max(0, nullptr);
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) leaves.features = d;
  leaves.enabled = enabled_state();
  if (__get_cpuid_count(kTileLeaf, 0, &a, &b, &c, &d) == 0) return leaves;
  leaves.highest_palette = a;
  __cpuid_count(kTileLeaf, 1, a, b, c, d);
  leaves.palette_names = b;
  leaves.palette_rows = c;
  return leaves;
}
#endif

}  // namespace

Amx judge_amx(const AmxLeaves& leaves) {
  const bool has_tiles = (leaves.features & kTile) != 0 && (leaves.features & (kBf16 | kInt8)) != 0;
  if (!has_tiles || (leaves.enabled & kTileState) != kTileState) return Amx::Absent;
  // A processor answers leaves beyond its highest one with those of another leaf.
  if (leaves.highest_leaf < kTileLeaf || leaves.highest_palette == 0) return Amx::Undescribed;
  const bool has_sizes = (leaves.palette_names >> 16) != 0 && (leaves.palette_names & kLowHalf) != 0 &&
                         (leaves.palette_rows & kLowHalf) != 0;
  return has_sizes ? Amx::Described : Amx::Undescribed;
}

Amx amx_of_processor() {
#if defined(__x86_64__)
  return judge_amx(leaves_of_processor());
#else
  return Amx::Absent;
#endif
}

}  // namespace lockstep
