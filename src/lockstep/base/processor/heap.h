#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// A training step frees and takes the same large blocks again and again. glibc's malloc gives them back to the kernel
/// in between, which then has to clear every page anew: up to a third of a step (docs/performance.md, "The heap").
/// Both functions make it keep what was freed, unless the user chose otherwise: by LOCKSTEP_MALLOC=system, or by any of
/// malloc's own variables (MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_, GLIBC_TUNABLES).

/// For this process, from now on. Does nothing where malloc is not glibc's.
/// @throws Error  if LOCKSTEP_MALLOC is neither "keep" nor "system"
void keep_freed_memory();

/// Gives back to the kernel what was freed and will not be taken again: malloc's heap of one thread is of no use to
/// another thread, so what was kept there once stays resident for nothing. Everything else that is free goes as well
/// and is cleared anew when it is taken: not for every step. Does nothing where malloc is not glibc's.
void release_freed_memory();

/// For a process to be started: the variables that say the same, and that its heap may use huge pages. Empty where the
/// user chose. @param is_set  whether the user set a variable
/// @throws Error  as keep_freed_memory
std::vector<std::pair<std::string, std::string>> heap_variables(const std::function<bool(const std::string&)>& is_set);

}  // namespace lockstep
