#include "lockstep/optim/kernels/large_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace lockstep {

void advise_large_pages(void* memory, std::size_t bytes) {
#if defined(MADV_HUGEPAGE)
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(memory) + page - 1) / page * page;
  const auto end = (reinterpret_cast<std::uintptr_t>(memory) + bytes) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#else
  (void)memory;
  (void)bytes;
#endif
}

}  // namespace lockstep
