#include "lockstep/base/zero_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

namespace lockstep {

void zero_and_give_back(void* memory, std::size_t bytes) noexcept {
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  std::memset(memory, 0, bytes);
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t first = (begin + page - 1) / page * page;
  const std::uintptr_t last = (begin + bytes) / page * page;
  if (first >= last) return;
  void* const pages = reinterpret_cast<void*>(first);
  // The first is for shared mappings and refuses others; the second gives private pages back, and no shared ones.
  if (::madvise(pages, last - first, MADV_REMOVE) != 0) ::madvise(pages, last - first, MADV_DONTNEED);
}

bool is_zero(const void* memory, std::size_t bytes) noexcept {
  const auto* const at = static_cast<const unsigned char*>(memory);
  return bytes == 0 || (at[0] == 0 && std::memcmp(at, at + 1, bytes - 1) == 0);
}

}  // namespace lockstep
