#pragma once

#include <cstddef>

namespace fake_gpu {

/// Page-locked memory of the host, full of 0xFF. A copy from or to it does not make the host wait, so its bytes are
/// read and written when the stream gets there: what the program does to them meanwhile shows.
void* take_pinned_memory(std::size_t bytes);
/// Memory of the program that it page-locks, as cudaHostRegister.
void register_pinned(void* pointer, std::size_t bytes);
bool unregister_pinned(void* pointer);
/// Also releases it if it was taken here. False if `pointer` is not the beginning of such memory.
bool give_pinned_memory(void* pointer);
bool is_pinned(const void* pointer);

}  // namespace fake_gpu
