#pragma once

#include <string>

namespace lockstep {

/// How a process ended.
struct ExitStatus {
  int code = 0;              ///< what it returned, where no signal ended it
  int signal = 0;            ///< the signal that ended it, or 0
  bool dumped_core = false;  ///< and it left a core file

  bool well() const { return code == 0 && signal == 0; }
  /// "exit code 3", "killed by SIGSEGV (Segmentation fault), core dumped"
  std::string describe() const;
};

/// What the reader should try after a rank ended like this.
/// @param out_of_memory  whether the kernel's out-of-memory killer was at work in the meantime
std::string advice_for(const ExitStatus& status, bool out_of_memory);

/// How often the kernel has killed a process of this control group for want of memory, so far; 0 where it cannot be
/// read.
long count_out_of_memory_kills();

}  // namespace lockstep
