#pragma once

#include <cstddef>

namespace lockstep {

/// Asks for large pages behind `bytes` of memory that was not written yet. An update walks several streams side by
/// side, and each needs an entry of the page table. This is advice: if the kernel ignores it, nothing changes.
void advise_large_pages(void* memory, std::size_t bytes);

}  // namespace lockstep
