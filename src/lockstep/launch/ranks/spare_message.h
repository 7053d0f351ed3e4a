#pragma once

#include <cstdint>

namespace lockstep {

/// What a launcher and a process that waits as a warm spare say to each other, on a socket whose number stands in the
/// variable kSpareVariable of the spare. The spare writes one byte once it is loaded. The launcher answers with a
/// SpareStart, to which the new standard streams are attached (SCM_RIGHTS), followed by the environment: texts that end
/// with a zero byte. The end of the connection means that the spare is not needed.
struct SpareStart {
  std::uint32_t environment_bytes = 0;
  std::uint8_t has_out = 0;  ///< the first descriptor attached becomes stdout
  std::uint8_t has_err = 0;  ///< the next one becomes stderr
  std::uint8_t unused[2] = {0, 0};
};

constexpr const char* kSpareVariable = "LOCKSTEP_SPARE";
constexpr const char* kSpareLibrary = "liblockstep_spare.so";
/// The function of that library that waits, for a program that exports the symbol `lockstep_waits_when_ready`: such a
/// program is not stopped before its main function.
constexpr const char* kSpareWait = "lockstep_wait_as_spare";

}  // namespace lockstep
