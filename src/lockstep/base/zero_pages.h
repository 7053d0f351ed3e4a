#pragma once

#include <cstddef>

namespace lockstep {

/// Makes all bytes zero, and gives whole pages back to the kernel: they take no memory until somebody writes to them.
/// Memory of this process alone, or a shared mapping of a memfd. Where the kernel keeps the pages, they are zero too.
void zero_and_give_back(void* memory, std::size_t bytes) noexcept;

/// Whether all bytes are zero.
bool is_zero(const void* memory, std::size_t bytes) noexcept;

}  // namespace lockstep
