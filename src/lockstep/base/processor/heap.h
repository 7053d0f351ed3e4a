#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// A training step frees and allocates large blocks of equal size again and again. glibc's malloc returns them to the
/// kernel in between, which must then clear every page again: up to a third of a step (docs/performance/update.md, "The
/// heap"). `keep_freed_memory` and `heap_variables` make malloc keep freed memory, unless the user chose otherwise with
/// LOCKSTEP_MALLOC=system or with any of malloc's own variables (MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_,
/// GLIBC_TUNABLES).

/// Makes malloc keep freed memory in this process, from now on. Does nothing if malloc is not glibc's.
/// @throws Error  if LOCKSTEP_MALLOC is neither "keep" nor "system"
void keep_freed_memory();

/// Returns freed memory to the kernel that will not be used again: malloc's heap of one thread is of no use to another
/// thread, so memory kept there would stay resident for nothing. All other free memory is returned too and must be
/// cleared when it is allocated again, so do not call this in every step. Does nothing if malloc is not glibc's.
void release_freed_memory();

/// The variables that make malloc of a new process keep freed memory, and let its heap use huge pages. Empty if the
/// user chose.
/// @param is_set  whether the user set a variable
/// @throws Error  as keep_freed_memory
std::vector<std::pair<std::string, std::string>> heap_variables(const std::function<bool(const std::string&)>& is_set);

}  // namespace lockstep
