#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// A memory file that a launcher holds as long as its job lives, and that all ranks of its host inherit. What ranks
/// write there outlives them. It is empty at first, can grow and never shrinks, and has no name: its pages go when the
/// launcher and all ranks have ended, however they end.
///
/// This variable has the number of its descriptor in each rank.
constexpr const char* kJobMemoryVariable = "LOCKSTEP_MEMORY_FD";

/// What a launcher reads there.
struct JobMemoryHeader {
  std::atomic<std::uint64_t> layout;     ///< kLayout, once ranks have written something
  std::atomic<std::uint64_t> can_begin;  ///< not 0: ranks that are started can continue from here
  std::atomic<std::uint64_t> steps;      ///< updates of the training that are done there, or are about to be
  static constexpr std::uint64_t kLayout = 0x4c53'4d45'4d00'0003;
};

/// Makes such a file. @return  nothing if the kernel has none, as in some sandboxes; ranks then do without
UniqueFd make_job_memory();

/// The descriptor in a rank; -1 if its launcher gave it none, or if the number means something else here. From the
/// first call on, programs that this process starts do not inherit it.
int job_memory_of_rank();

/// For a launcher whose ranks have ended: from which update on they can continue; nothing if there is no state.
std::optional<std::uint64_t> steps_in_memory(int file);

}  // namespace lockstep
