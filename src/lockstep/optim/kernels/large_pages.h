#pragma once

#include <cstddef>

namespace lockstep {

/// Asks for large pages behind `bytes` of memory that nothing was written to yet: an update goes through several
/// streams side by side, and each needs an entry of the page table. Advice: where the kernel does not take it, nothing
/// changes.
void advise_large_pages(void* memory, std::size_t bytes);

}  // namespace lockstep
