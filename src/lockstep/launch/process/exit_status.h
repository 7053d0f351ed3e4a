#pragma once

#include <signal.h>

#include <string>

namespace lockstep {

/// How a process ended.
struct ExitStatus {
  int code = 0;              ///< what it returned, if no signal ended it
  int signal = 0;            ///< the signal that ended it, or 0
  bool dumped_core = false;  ///< it also left a core file

  bool success() const { return code == 0 && signal == 0; }
  /// "exit code 3", "killed by SIGSEGV (Segmentation fault), core dumped"
  std::string describe() const;
};

/// How the process ended of which waitid(2) says so.
ExitStatus exit_status_of(const siginfo_t& info);

/// Advice for the user after a rank ended with `status`.
/// @param out_of_memory  whether the kernel's out-of-memory killer killed a process meanwhile
/// @param has_lines  whether the report shows last lines of its standard error, to which the advice can point
std::string advice_for(const ExitStatus& status, bool out_of_memory, bool has_lines);

/// How many processes of this control group the kernel has killed because memory ran out; 0 if that cannot be read.
long count_out_of_memory_kills();

}  // namespace lockstep
