#pragma once

#include <cstdint>

namespace lockstep {

/// The messages between a launcher and a process that waits as a warm spare, on a socket whose number is in the spare's
/// variable kSpareVariable. The spare writes one byte once it is loaded. The launcher answers with a SpareStart, with
/// the new standard streams attached (SCM_RIGHTS), followed by the environment: texts that each end with a zero byte.
/// The end of the connection means that the spare is not needed.
struct SpareStart {
  std::uint32_t environment_bytes = 0;
  std::uint8_t has_out = 0;  ///< the first attached descriptor becomes stdout
  std::uint8_t has_err = 0;  ///< the next one becomes stderr
  std::uint8_t unused[2] = {0, 0};
};

constexpr const char* kSpareVariable = "LOCKSTEP_SPARE";
constexpr const char* kSpareLibrary = "liblockstep_spare.so";
/// The library's function that waits, for a program that exports the symbol `lockstep_waits_when_ready`: such a
/// program is not stopped before its main function, but calls this function itself.
constexpr const char* kSpareWait = "lockstep_wait_as_spare";

}  // namespace lockstep
