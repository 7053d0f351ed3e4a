#pragma once

#include <cstdint>

namespace lockstep {

/// What CPUID and XGETBV say of AMX. A struct of plain numbers, so that tests can choose them.
struct AmxLeaves {
  std::uint32_t highest_leaf = 0;     ///< leaf 0, EAX
  std::uint32_t features = 0;         ///< leaf 7, EDX: which parts of AMX the processor has
  std::uint64_t enabled = 0;          ///< XCR0: which registers the operating system keeps for a process
  std::uint32_t highest_palette = 0;  ///< leaf 1Dh, EAX: layouts of tiles that the processor knows
  std::uint32_t palette_names = 0;    ///< leaf 1Dh subleaf 1, EBX: number of tiles, and bytes of a row
  std::uint32_t palette_rows = 0;     ///< leaf 1Dh subleaf 1, ECX: rows of a tile
};

enum class Amx {
  Absent,      ///< the processor lacks it, or the operating system does not enable it
  Described,   ///< usable
  Undescribed  ///< offered, but leaf 1Dh, which describes its tiles, is missing or empty
};

/// Some hypervisors pass AMX on to a virtual machine and leave out CPUID leaf 1Dh. oneDNN then configures no tiles, and
/// its first instruction on a tile is an illegal one: every product in bf16 ends the program with SIGILL.
Amx judge_amx(const AmxLeaves& leaves);

/// The verdict on this processor. Uses CPUID alone, so it may run before every constructor.
Amx amx_of_processor();

}  // namespace lockstep
